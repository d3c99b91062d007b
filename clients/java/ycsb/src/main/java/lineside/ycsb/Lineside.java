package lineside.ycsb;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * YCSB binding for Lineside's native format (docs/wire-formats.md, column). Each thread has its own socket and one
 * request in flight. The client's address must be in the server's {@code trusted_sources}. Its property {@code
 * lineside} is the server's {@code address:port}.
 */
public final class Lineside extends Checked {
  private static final short MAGIC = 0x4c53;
  private static final byte VERSION = 1;
  private static final int REPLY_BIT = 0x80;
  private static final byte GET = 1;
  private static final byte SCAN = 2;
  private static final byte PUT = 3;
  private static final byte DELETE = 4;
  private static final int OK = 0;
  private static final int UNKNOWN_ROW = 1;
  private static final int BUSY = 3;
  private static final int FASTPATH = 1;
  private static final int HEADER_BYTES = 16;
  private static final int HEAD_BYTES = 32;
  private static final int NAME_BYTES = 32;
  private static final int REPLY_HEAD_BYTES = HEADER_BYTES + 24;
  /** Number of bytes of a row's head and of YCSB's longest key. */
  private static final int ROW_HEAD_BYTES = 4 + 24;
  private static final byte START_EXCLUSIVE = 4;
  private static final int MORE = 2;
  private static final int PACKET_BYTES = 1452;
  private static final int PATIENCE_MS = 10_000;
  /** Time in milliseconds after which a read without an answer is sent again. */
  private static final int AGAIN_MS = 500;
  private static final byte[] NAME = Arrays.copyOf((FAMILY + ":" + FIELD).getBytes(StandardCharsets.UTF_8), NAME_BYTES);

  private final ByteBuffer out = ByteBuffer.allocate(PACKET_BYTES);
  private final byte[] in = new byte[PACKET_BYTES];
  private DatagramChannel channel;
  private Selector selector;
  private long nextId = System.nanoTime();

  @Override
  void connect() throws IOException {
    String[] at = getProperties().getProperty("lineside").split(":");
    channel = DatagramChannel.open(StandardProtocolFamily.INET);
    channel.connect(new InetSocketAddress(at[0], Integer.parseInt(at[1])));
    channel.configureBlocking(false);
    selector = Selector.open();
    channel.register(selector, SelectionKey.OP_READ);
  }

  /** Reads rows. If they do not fit in one reply, continues after the last row of each reply. */
  @Override
  Source ask(String key, int count, boolean exact, Rows rows) throws IOException {
    int rowBytes = padded(ROW_HEAD_BYTES + valueBytes());
    Source source = Source.FASTPATH;
    String start = key;
    byte flags = 0;
    int left = count;
    while (true) {
      int rowsMax = Math.min(left, (PACKET_BYTES - REPLY_HEAD_BYTES) / rowBytes);
      byte op = exact ? GET : SCAN;
      write(op, flags, start, exact ? 0 : rowsMax, new byte[0], REPLY_HEAD_BYTES + rowsMax * rowBytes);
      ByteBuffer reply = exchange(true);
      if (reply.get(HEADER_BYTES) != FASTPATH) {
        source = Source.HOST;
      }
      int found = reply.getShort(HEADER_BYTES + 2);
      int at = REPLY_HEAD_BYTES;
      for (int row = 0; row < found; row++) {
        int keyBytes = reply.get(at) & 0xff;
        int bytes = reply.getShort(at + 2) & 0xffff;
        byte[] value = Arrays.copyOfRange(in, at + 4 + keyBytes, at + 4 + keyBytes + bytes);
        start = new String(in, at + 4, keyBytes, StandardCharsets.UTF_8);
        rows.row(start, value);
        at += (4 + keyBytes + bytes + 7) & ~7;
      }
      left -= found;
      if (exact || left <= 0 || found == 0 || (reply.get(HEADER_BYTES + 1) & MORE) == 0) {
        return source;
      }
      flags = START_EXCLUSIVE;
    }
  }

  @Override
  void put(String key, byte[] value) throws IOException {
    write(PUT, (byte) 0, key, 0, value, REPLY_HEAD_BYTES);
    exchange(false);
  }

  @Override
  void remove(String key) throws IOException {
    write(DELETE, (byte) 0, key, 0, new byte[0], REPLY_HEAD_BYTES);
    exchange(false);
  }

  /** Writes a request to the buffer, padded to the maximum length of its reply. */
  private void write(byte op, byte flags, String key, int limit, byte[] value, int replyBytes) {
    byte[] start = key.getBytes(StandardCharsets.UTF_8);
    int bytes = HEADER_BYTES + HEAD_BYTES + NAME_BYTES + padded(start.length) + padded(value.length);
    bytes = Math.max(bytes, replyBytes);
    Arrays.fill(out.array(), 0, bytes, (byte) 0);
    out.clear();
    out.putShort(MAGIC).put(VERSION).put(op).putShort((short) 0).putShort((short) (bytes - HEADER_BYTES));
    out.putLong(nextId++);
    out.put(flags).put((byte) start.length).put((byte) 0).put((byte) 1).putShort((short) limit);
    out.putShort((short) value.length);
    out.position(HEADER_BYTES + HEAD_BYTES);
    out.put(NAME).put(start);
    out.position(HEADER_BYTES + HEAD_BYTES + NAME_BYTES + padded(start.length));
    out.put(value);
    out.position(0).limit(bytes);
  }

  private static int padded(int bytes) {
    return (bytes + 7) & ~7;
  }

  /**
   * Sends the request and waits for its reply. A write is sent only once: a repeated one could undo a later write.
   */
  private ByteBuffer exchange(boolean isRead) throws IOException {
    int op = (out.get(3) & 0xff) | REPLY_BIT;
    long id = out.getLong(8);
    long began = System.nanoTime();
    send();
    while (System.nanoTime() - began < PATIENCE_MS * 1_000_000L) {
      ByteBuffer reply = receive(isRead ? AGAIN_MS : PATIENCE_MS);
      if (reply == null) {
        if (isRead) {
          send();
        }
        continue;
      }
      if (reply.remaining() < HEADER_BYTES || (reply.get(3) & 0xff) != op || reply.getLong(8) != id) {
        continue;
      }
      int status = reply.getShort(4);
      if (status == OK || status == UNKNOWN_ROW) {
        return reply;
      }
      if (status == BUSY && isRead) {
        send();
        continue;
      }
      throw new IOException("status " + status);
    }
    throw new IOException("no answer from Lineside within " + PATIENCE_MS + " ms");
  }

  private void send() throws IOException {
    out.rewind();
    channel.write(out);
  }

  /**
   * Returns the next datagram; null if no datagram arrives in time. A reply from the fast path has usually arrived by
   * the first attempt to read.
   */
  private ByteBuffer receive(int patienceMs) throws IOException {
    ByteBuffer reply = ByteBuffer.wrap(in);
    if (channel.read(reply) == 0) {
      selector.select(patienceMs);
      selector.selectedKeys().clear();
      if (channel.read(reply) == 0) {
        return null;
      }
    }
    reply.flip();
    return reply;
  }

  @Override
  void close() throws IOException {
    selector.close();
    channel.close();
  }
}

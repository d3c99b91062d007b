package lineside.observer;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * One datagram between a region server and Lineside: {@code column_notice} of {@code spec/column.toml}. A PRE notice
 * announces changes. It is open from the time before the first of its changes can become visible until all have ended.
 * Further changes join it until it is sent.
 */
final class Notice {
  static final int PRE = 1;
  static final int POST = 2;
  static final int ASK = 3;
  static final int GRANT = 4;
  static final int ACK = 5;
  static final int RANGE = 1;
  static final int OPENED = 2;
  static final int PORT = 7706;
  static final int BYTES_MAX = 1400;
  static final int KEY_BYTES_MIN = 32;
  private static final int MAGIC = 0x4c53434e;
  private static final int HEAD_BYTES = 64;
  private static final int TAG_BYTES = 16;
  /**
   * Maximum number of bytes of a row key that are sent. Keys in the fast path are shorter, so the remaining bytes make
   * no difference.
   */
  private static final int KEY_BYTES_MAX = 255;

  int kind;
  int flags;
  byte[][] keys = new byte[0][];
  long server;
  long epoch;
  long number;
  long oldestOpen;
  long token;
  long expiresMs;
  int leaseMs;
  byte[] table;
  /** Subscriber and table of the notice, and number of the notice's changes that have not ended. */
  Line line;
  int changes;
  volatile boolean isAcknowledged;

  synchronized void acknowledge() {
    isAcknowledged = true;
    notifyAll();
  }

  /** Waits at most {@code ms} milliseconds. Returns true if the notice was acknowledged. */
  synchronized boolean await(long ms) throws InterruptedException {
    if (!isAcknowledged) {
      wait(ms);
    }
    return isAcknowledged;
  }

  /** Returns an object that signs datagrams with HMAC. Only one thread may use it at a time. */
  static Mac mac(byte[] key) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac;
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Returns true if these keys fit in one datagram. */
  static boolean fits(byte[] table, byte[][] keys) {
    return bytes(table, keys) <= BYTES_MAX;
  }

  private static int bytes(byte[] table, byte[][] keys) {
    int bytes = HEAD_BYTES + table.length + TAG_BYTES;
    for (byte[] key : keys) {
      bytes += 1 + Math.min(key.length, KEY_BYTES_MAX);
    }
    return bytes;
  }

  /**
   * Adds the keys of {@code other} to this notice. Returns {@code false} if one of the two notices is a range, or if
   * all keys do not fit in one datagram.
   */
  boolean join(Notice other) {
    byte[][] both = Arrays.copyOf(keys, keys.length + other.keys.length);
    System.arraycopy(other.keys, 0, both, keys.length, other.keys.length);
    if ((flags | other.flags) != 0 || !fits(table, both)) {
      return false;
    }
    keys = both;
    expiresMs = earlier(expiresMs, other.expiresMs);
    return true;
  }

  /** Returns the earlier of two expiry times; 0 means "does not expire". */
  static long earlier(long one, long other) {
    return one == 0 || (other != 0 && other < one) ? other : one;
  }

  byte[] toBytes(Mac mac) {
    ByteBuffer out = ByteBuffer.allocate(bytes(table, keys));
    out.putInt(MAGIC).put((byte) kind).put((byte) flags).putShort((short) keys.length);
    out.putLong(server).putLong(epoch).putLong(number).putLong(oldestOpen).putLong(token);
    out.putLong(expiresMs).putInt(leaseMs).putShort((short) table.length).putShort((short) 0);
    out.put(table);
    for (byte[] key : keys) {
      int length = Math.min(key.length, KEY_BYTES_MAX);
      out.put((byte) length).put(key, 0, length);
    }
    mac.update(out.array(), 0, out.position());
    out.put(mac.doFinal(), 0, TAG_BYTES);
    return out.array();
  }

  /**
   * Parses a lease request or an acknowledgement. Returns {@code null} for other datagrams, and for datagrams that are
   * not signed with the key.
   */
  static Notice parse(byte[] bytes, int length, Mac mac) {
    int end = length - TAG_BYTES;
    if (end < HEAD_BYTES) {
      return null;
    }
    mac.update(bytes, 0, end);
    byte[] tag = Arrays.copyOf(mac.doFinal(), TAG_BYTES);
    if (!MessageDigest.isEqual(tag, Arrays.copyOfRange(bytes, end, length))) {
      return null;
    }
    ByteBuffer in = ByteBuffer.wrap(bytes, 0, end);
    Notice notice = new Notice();
    notice.kind = in.get(4);
    notice.epoch = in.getLong(16);
    notice.number = in.getLong(24);
    notice.token = in.getLong(40);
    boolean isWhole = in.getInt() == MAGIC && (in.getShort(60) & 0xffff) == end - HEAD_BYTES;
    if (!isWhole || (notice.kind != ASK && notice.kind != ACK)) {
      return null;
    }
    notice.table = Arrays.copyOfRange(bytes, HEAD_BYTES, end);
    return notice;
  }
}

package lineside.observer;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import javax.crypto.Mac;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.regionserver.OnlineRegions;
import org.apache.hadoop.hbase.regionserver.Region;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Connection of this JVM to Lineside: it numbers changes, waits for acknowledgements, and grants leases. A JVM has only
 * one notifier.
 *
 * <p>Each table may load the jar separately, with its own classes, but leases and numbers must be common to all tables.
 * So the notifier is stored where every class loader finds it, and is called through a type that all class loaders
 * share: {@link #apply} takes the name of an operation and its arguments.
 */
final class Notifier implements Function<Object[], Object> {
  private static final Logger LOG = LoggerFactory.getLogger(Notifier.class);
  private static final String PLACE = "lineside.notifier";
  /** Time in milliseconds after which a notice that was not acknowledged is sent again. */
  private static final long AGAIN_MS = 10;
  /** Time in milliseconds without an acknowledgement after which no lease is granted until the last one has expired. */
  private static final long PATIENCE_MS = 50;

  private final DatagramSocket socket;
  private final ThreadLocal<Mac> mac;
  private final long server;
  private final long leaseNs;
  private final String[] subscribers;
  private final AtomicLong nextEpoch;
  private final Map<String, Line> lines = new ConcurrentHashMap<>();
  private final Map<String, Set<Line>> told = new ConcurrentHashMap<>();
  private final Set<OnlineRegions> servers = ConcurrentHashMap.newKeySet();

  private Notifier(Configuration settings, byte[] key, DatagramSocket socket, String name) {
    this.socket = socket;
    this.mac = ThreadLocal.withInitial(() -> Notice.mac(key));
    this.leaseNs = settings.getLong("lineside.lease.ms", 1000) * 1_000_000;
    this.subscribers = settings.getTrimmedStrings("lineside.subscribers");
    this.nextEpoch = new AtomicLong(System.currentTimeMillis() << 16);
    long hash = 0xcbf29ce484222325L;
    for (byte one : name.getBytes(StandardCharsets.UTF_8)) {
      hash = (hash ^ (one & 0xff)) * 0x100000001b3L;
    }
    this.server = hash;
  }

  /**
   * Returns the notifier of this JVM, and starts it if necessary. Returns {@code null} if it cannot be started; the log
   * then has the reason.
   */
  @SuppressWarnings("unchecked")
  static Function<Object[], Object> get(Configuration settings, String name) {
    Properties shared = System.getProperties();
    synchronized (shared) {
      Object found = shared.get(PLACE);
      if (found instanceof Function) {
        return (Function<Object[], Object>) found;
      }
      try {
        Notifier notifier = new Notifier(settings, key(settings), socket(settings), name);
        Thread thread = new Thread(notifier::listen, "lineside");
        thread.setDaemon(true);
        thread.start();
        shared.put(PLACE, notifier);
        return notifier;
      } catch (IOException | RuntimeException error) {
        LOG.error(
            "Lineside is not notified of this server's changes, because the notifier cannot start;"
                + " check lineside.key.file and lineside.listen",
            error);
        return null;
      }
    }
  }

  private static byte[] key(Configuration settings) throws IOException {
    String path = settings.getTrimmed("lineside.key.file", "");
    String text = new String(Files.readAllBytes(Paths.get(path)), StandardCharsets.US_ASCII).trim();
    byte[] key = new byte[text.length() / 2];
    for (int at = 0; at < key.length; at++) {
      key[at] = (byte) Integer.parseInt(text.substring(2 * at, 2 * at + 2), 16);
    }
    if (key.length < Notice.KEY_BYTES_MIN) {
      throw new IOException(
          path + ": the key is too short; it needs at least " + Notice.KEY_BYTES_MIN + " bytes, as hex digits");
    }
    return key;
  }

  /**
   * Opens the socket of the notifier. If the port is in use, takes any free port: Lineside then receives notices of an
   * unknown server, and caches none of this server's rows.
   */
  private static DatagramSocket socket(Configuration settings) throws SocketException {
    InetSocketAddress listen = address(settings.getTrimmed("lineside.listen", "0.0.0.0:" + Notice.PORT));
    try {
      return new DatagramSocket(listen);
    } catch (SocketException error) {
      LOG.error(
          "Cannot listen at {}, so Lineside gets no leases from this server; set lineside.listen to a free address",
          listen,
          error);
      return new DatagramSocket(new InetSocketAddress(listen.getAddress(), 0));
    }
  }

  private static InetSocketAddress address(String text) {
    int colon = text.lastIndexOf(':');
    return new InetSocketAddress(text.substring(0, Math.max(colon, 0)), Integer.parseInt(text.substring(colon + 1)));
  }

  @Override
  public Object apply(Object[] what) {
    switch ((String) what[0]) {
      case "opened":
        opened((OnlineRegions) what[1], (String) what[2], (byte[]) what[3], (String[]) what[4]);
        return null;
      case "closed":
        told.remove(what[1]);
        return null;
      case "begin":
        return begin((String) what[1], (Integer) what[2], (byte[][]) what[3], (Long) what[4]);
      case "await":
        for (Notice change : (Notice[]) what[1]) {
          await(change);
        }
        return null;
      case "untold":
        giveUp(told.getOrDefault((String) what[1], Collections.emptySet()));
        return null;
      case "end":
        end((Notice[]) what[1]);
        return null;
      default:
        throw new IllegalArgumentException((String) what[0]);
    }
  }

  private void opened(OnlineRegions online, String region, byte[] table, String[] addresses) {
    if (online != null) {
      servers.add(online);
    }
    Set<Line> of = ConcurrentHashMap.newKeySet();
    for (String address : addresses) {
      // The server that held the region before may have granted a lease and then crashed.
      of.add(line(address(address), table).assume(leaseNs));
    }
    told.put(region, of);
  }

  private Line line(InetSocketAddress subscriber, byte[] table) {
    return lines.computeIfAbsent(
        name(subscriber, table), name -> new Line(subscriber, table, nextEpoch.getAndIncrement(), leaseNs));
  }

  private static String name(InetSocketAddress subscriber, byte[] table) {
    InetAddress at = subscriber.getAddress();
    String host = at == null ? subscriber.getHostString() : at.getHostAddress();
    return host + " " + subscriber.getPort() + " " + new String(table, StandardCharsets.ISO_8859_1);
  }

  // ---- changes ----

  private Notice[] begin(String region, int flags, byte[][] keys, long expiresMs) {
    Set<Line> of = told.get(region);
    if (of == null || of.isEmpty()) {
      return null;
    }
    try {
      return begin(of, flags, keys, expiresMs);
    } catch (Throwable error) {
      LOG.error("A change cannot be sent to Lineside; it waits until Lineside's leases have expired", error);
      giveUp(of);
      return null;
    }
  }

  /**
   * Blocks until the leases of these lines have expired, and never grants leases on them again: a change that was not
   * announced may become visible only when no subscriber answers from old rows.
   */
  private static void giveUp(Set<Line> of) {
    for (Line line : of) {
      line.refuseLeases(true);
    }
    for (Line line : of) {
      while (line.isLeased()) {
        LockSupport.parkNanos(AGAIN_MS * 1_000_000);
      }
    }
  }

  private Notice[] begin(Set<Line> of, int flags, byte[][] keys, long expiresMs) {
    Notice[] changes = new Notice[of.size()];
    int count = 0;
    for (Line line : of) {
      Notice notice = notice(line, Notice.PRE);
      notice.flags = flags;
      notice.keys = keys;
      notice.expiresMs = expiresMs;
      changes[count++] = line.begin(notice);
      send(line.isLeased() ? line.take(AGAIN_MS * 1_000_000) : null);
    }
    return changes;
  }

  /** Waits until the subscriber has acknowledged the change, or until the subscriber's lease has expired. */
  private void await(Notice change) {
    Line line = change.line;
    boolean isInterrupted = false;
    boolean refuses = false;
    boolean again = false;
    long began = System.nanoTime();
    while (line.isLeased()) {
      // The first waiting thread sends the notice of all changes that were collected while HBase wrote its log.
      send(line.take(change, again));
      again = true;
      try {
        if (change.await(AGAIN_MS)) {
          break;
        }
      } catch (InterruptedException error) {
        isInterrupted = true;
      }
      if (!refuses && System.nanoTime() - began > PATIENCE_MS * 1_000_000) {
        refuses = true;
        line.refuseLeases(true);
      }
    }
    if (refuses) {
      line.refuseLeases(false);
    }
    if (isInterrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void end(Notice[] changes) {
    for (Notice change : changes) {
      if (change.line.end(change) && change.line.isLeased()) {
        send(notice(change.line, Notice.POST));
      }
    }
  }

  // ---- datagrams ----

  private Notice notice(Line line, int kind) {
    Notice notice = new Notice();
    notice.line = line;
    notice.kind = kind;
    notice.server = server;
    notice.epoch = line.epoch;
    notice.oldestOpen = line.oldestOpen();
    notice.table = line.table;
    return notice;
  }

  private void send(Notice notice) {
    if (notice == null) {
      return;
    }
    byte[] bytes = notice.toBytes(mac.get());
    try {
      socket.send(new DatagramPacket(bytes, bytes.length, notice.line.subscriber));
    } catch (IOException | RuntimeException lost) {
      // A change whose notice is not acknowledged waits until the lease expires, so the error needs no action.
    }
  }

  private void listen() {
    byte[] bytes = new byte[Notice.BYTES_MAX];
    while (true) {
      try {
        DatagramPacket packet = new DatagramPacket(bytes, bytes.length);
        socket.receive(packet);
        Notice notice = Notice.parse(bytes, packet.getLength(), mac.get());
        if (notice != null) {
          hear((InetSocketAddress) packet.getSocketAddress(), notice);
        }
      } catch (Throwable error) {
        LOG.warn("Ignored a datagram at the notifier's port, because it could not be handled", error);
      }
    }
  }

  private void hear(InetSocketAddress from, Notice notice) throws IOException {
    Line line = lines.get(name(from, notice.table));
    if (notice.kind == Notice.ASK) {
      if (line == null && isSubscriber(from)) {
        line = line(from, notice.table);
      }
      grant(line, notice.token);
    } else if (line != null && line.epoch == notice.epoch) {
      Notice change = line.open(notice.number);
      if (change != null) {
        change.acknowledge();
      }
    }
  }

  private boolean isSubscriber(InetSocketAddress from) {
    for (String one : subscribers) {
      if (address(one).equals(from)) {
        return true;
      }
    }
    return false;
  }

  private void grant(Line line, long token) throws IOException {
    if (line == null || !isToldOfAll(line)) {
      return;
    }
    Notice notice = notice(line, Notice.GRANT);
    notice.number = line.grant(leaseNs);
    notice.oldestOpen = Math.min(notice.oldestOpen, notice.number);
    notice.token = token;
    notice.leaseMs = (int) (leaseNs / 1_000_000);
    if (notice.number > 0) {
      send(notice);
    }
  }

  /**
   * Returns true if all online regions of the table notify this subscriber. A region that was opened without the
   * coprocessor, or for other subscribers, does not announce its changes.
   */
  private boolean isToldOfAll(Line line) throws IOException {
    TableName table = TableName.valueOf(line.table);
    for (OnlineRegions online : servers) {
      for (Region region : online.getRegions(table)) {
        Set<Line> of = told.get(region.getRegionInfo().getEncodedName());
        if (of == null || !of.contains(line)) {
          return false;
        }
      }
    }
    return true;
  }
}

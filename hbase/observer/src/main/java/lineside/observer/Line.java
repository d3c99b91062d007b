package lineside.observer;

import java.net.InetSocketAddress;
import java.util.TreeMap;

/**
 * What one subscriber must be told of one table: numbered changes, which of them are under way, and until when the
 * subscriber may answer from what it read.
 */
final class Line {
  /** One change, from before it can be seen until it is. */
  static final class Change {
    final Line line;
    final long number;
    Notice notice;
    private boolean isAcknowledged;

    Change(Line line, long number) {
      this.line = line;
      this.number = number;
    }

    synchronized void acknowledge() {
      isAcknowledged = true;
      notifyAll();
    }

    /** Waits for so long at most; whether it is acknowledged. */
    synchronized boolean await(long ms) throws InterruptedException {
      if (!isAcknowledged) {
        wait(ms);
      }
      return isAcknowledged;
    }
  }

  final InetSocketAddress subscriber;
  final byte[] table;
  final long epoch;
  private final TreeMap<Long, Change> open = new TreeMap<>();
  private long next = 1;
  private long leasedUntilNs;
  private int waiting;

  /** An earlier process may have granted a lease just before it ended: its end is waited for. */
  Line(InetSocketAddress subscriber, byte[] table, long epoch, long leaseNs) {
    this.subscriber = subscriber;
    this.table = table;
    this.epoch = epoch;
    this.leasedUntilNs = System.nanoTime() + leaseNs;
  }

  synchronized Change begin() {
    Change change = new Change(this, next++);
    open.put(change.number, change);
    return change;
  }

  synchronized void end(Change change) {
    open.remove(change.number);
  }

  synchronized Change open(long number) {
    return open.get(number);
  }

  synchronized long oldestOpen() {
    return open.isEmpty() ? next : open.firstKey();
  }

  /** The next number, or 0: no lease is granted while a change waits for the last one's end. */
  synchronized long grant(long leaseNs) {
    if (waiting > 0) {
      return 0;
    }
    leasedUntilNs = Math.max(leasedUntilNs, System.nanoTime() + leaseNs);
    return next;
  }

  /** Whether the subscriber may be answering. */
  synchronized boolean isLeased() {
    return System.nanoTime() - leasedUntilNs <= 0;
  }

  synchronized void refuseLeases(boolean refuse) {
    waiting += refuse ? 1 : -1;
  }
}

package lineside.observer;

import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.TreeMap;

/**
 * Notices of one table to one subscriber: numbers the changes, tracks which of them are in progress, and knows until
 * when the subscriber may answer from the rows it has read.
 */
final class Line {
  final InetSocketAddress subscriber;
  final byte[] table;
  final long epoch;
  private final TreeMap<Long, Notice> open = new TreeMap<>();
  /** Notices that are not sent yet, ordered by number. */
  private final ArrayDeque<Notice> unsent = new ArrayDeque<>();
  /** The last notice sent; {@code sentNs} is the time. */
  private Notice sent;
  private long sentNs;
  private long next = 1;
  private long leasedUntilNs;
  private int waiting;

  /** Assumes that a lease is running: an earlier process may have granted one just before it ended. */
  Line(InetSocketAddress subscriber, byte[] table, long epoch, long leaseNs) {
    this.subscriber = subscriber;
    this.table = table;
    this.epoch = epoch;
    this.leasedUntilNs = System.nanoTime() + leaseNs;
  }

  /** Begins a change: joins it to the last unsent notice if possible, else gives it the next number. */
  synchronized Notice begin(Notice change) {
    Notice last = unsent.peekLast();
    if (last == null || !last.join(change)) {
      last = change;
      last.number = next++;
      open.put(last.number, last);
      unsent.add(last);
    }
    last.changes++;
    return last;
  }

  /**
   * Returns the notice to send now; {@code null} while another one is not acknowledged, so that changes that begin
   * meanwhile share a notice.
   */
  synchronized Notice take(long patienceNs) {
    boolean isBusy = sent != null && !sent.isAcknowledged && System.nanoTime() - sentNs < patienceNs;
    return isBusy || unsent.isEmpty() ? null : take(unsent.peek(), false);
  }

  /**
   * Marks this notice as sent, so that no further change joins it. Returns {@code null} if it was sent before and
   * {@code again} is false.
   */
  synchronized Notice take(Notice notice, boolean again) {
    if (!unsent.remove(notice) && !again) {
      return null;
    }
    notice.oldestOpen = oldestOpen();
    sent = notice;
    sentNs = System.nanoTime();
    return notice;
  }

  /**
   * Ends one of the changes of a notice. Returns whether the subscriber must be notified of the end, because no
   * notice in progress reports it too.
   */
  synchronized boolean end(Notice notice) {
    if (--notice.changes > 0) {
      return false;
    }
    open.remove(notice.number);
    unsent.remove(notice);
    return unsent.isEmpty() && (sent == null || sent.changes == 0 || sent.isAcknowledged);
  }

  synchronized Notice open(long number) {
    return open.get(number);
  }

  synchronized long oldestOpen() {
    return open.isEmpty() ? next : open.firstKey();
  }

  /**
   * Grants a lease and returns the next number; 0: no lease is granted while a change waits for the last one to
   * expire.
   */
  synchronized long grant(long leaseNs) {
    if (waiting > 0) {
      return 0;
    }
    assume(leaseNs);
    return next;
  }

  /**
   * Extends the lease: another process may have granted one until now, so its expiry is awaited like that of our own.
   */
  synchronized Line assume(long leaseNs) {
    leasedUntilNs = Math.max(leasedUntilNs, System.nanoTime() + leaseNs);
    return this;
  }

  /** Returns whether the subscriber may be answering from its table. */
  synchronized boolean isLeased() {
    return System.nanoTime() - leasedUntilNs <= 0;
  }

  synchronized void refuseLeases(boolean refuse) {
    waiting += refuse ? 1 : -1;
  }
}

package lineside.observer;

import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.TreeMap;

/**
 * Notices of one table to one subscriber (a Lineside). Numbers the changes, records which of them are in progress, and
 * knows until when the subscriber may answer from rows that it has cached.
 */
final class Line {
  final InetSocketAddress subscriber;
  final byte[] table;
  final long epoch;
  private final TreeMap<Long, Notice> open = new TreeMap<>();
  /** Notices that were not sent yet, ordered by their numbers. */
  private final ArrayDeque<Notice> unsent = new ArrayDeque<>();
  /** The notice that was sent last; {@code sentNs} is the time at which it was sent. */
  private Notice sent;
  private long sentNs;
  private long next = 1;
  private long leasedUntilNs;
  private int waiting;

  /** Creates a line as if a lease had just been granted: an earlier process may have granted one before it ended. */
  Line(InetSocketAddress subscriber, byte[] table, long epoch, long leaseNs) {
    this.subscriber = subscriber;
    this.table = table;
    this.epoch = epoch;
    this.leasedUntilNs = System.nanoTime() + leaseNs;
  }

  /** Begins a change: adds it to the last unsent notice if possible; otherwise gives it the next number. */
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
   * Returns the notice to send now. Returns {@code null} while the last notice waits for its acknowledgement, so that
   * all changes that begin in the meantime share a notice.
   */
  synchronized Notice take(long patienceNs) {
    boolean isBusy = sent != null && !sent.isAcknowledged && System.nanoTime() - sentNs < patienceNs;
    return isBusy || unsent.isEmpty() ? null : take(unsent.peek(), false);
  }

  /**
   * Marks this notice as sent, so that no further change joins it. Returns {@code null} if it was sent before, unless
   * {@code again} is true.
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
   * Ends one of the changes of a notice. Returns true if the subscriber must be notified of the end, because no notice
   * in progress will report it.
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
   * Grants a lease and returns the number of the next change. Returns 0 and grants no lease while a change waits until
   * the last lease has expired.
   */
  synchronized long grant(long leaseNs) {
    if (waiting > 0) {
      return 0;
    }
    assume(leaseNs);
    return next;
  }

  /**
   * Extends the lease to at least `leaseNs` from now. A new process calls this, because an earlier process of this
   * server may have granted a lease until now; changes wait for the end of that lease, too.
   */
  synchronized Line assume(long leaseNs) {
    leasedUntilNs = Math.max(leasedUntilNs, System.nanoTime() + leaseNs);
    return this;
  }

  /** Returns true if the subscriber's lease may still be valid, so that it may answer from its cache. */
  synchronized boolean isLeased() {
    return System.nanoTime() - leasedUntilNs <= 0;
  }

  synchronized void refuseLeases(boolean refuse) {
    waiting += refuse ? 1 : -1;
  }
}

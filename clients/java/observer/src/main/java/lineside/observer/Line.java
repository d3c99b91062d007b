package lineside.observer;

import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.TreeMap;

/**
 * What one subscriber must be told of one table: numbered changes, which of them are under way, and until when the
 * subscriber may answer from what it read.
 */
final class Line {
  final InetSocketAddress subscriber;
  final byte[] table;
  final long epoch;
  private final TreeMap<Long, Notice> open = new TreeMap<>();
  /** Not sent yet, in the order of their numbers. */
  private final ArrayDeque<Notice> unsent = new ArrayDeque<>();
  /** Sent last, and when. */
  private Notice sent;
  private long sentNs;
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

  /** Begins a change: with those that are not sent yet, where it can join them, else as the next number. */
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

  /** What is to be sent now, if nothing is on its way: what begins meanwhile is told together. Else {@code null}. */
  synchronized Notice take(long patienceNs) {
    boolean isBusy = sent != null && !sent.isAcknowledged && System.nanoTime() - sentNs < patienceNs;
    return isBusy || unsent.isEmpty() ? null : take(unsent.peek(), false);
  }

  /** This one, which nothing joins any more; {@code null}: it was sent, and not {@code again}. */
  synchronized Notice take(Notice notice, boolean again) {
    if (!unsent.remove(notice) && !again) {
      return null;
    }
    notice.oldestOpen = oldestOpen();
    sent = notice;
    sentNs = System.nanoTime();
    return notice;
  }

  /** Ends one of a notice's changes; whether to say so, because nothing is under way whose end says it too. */
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

  /** The next number, or 0: no lease is granted while a change waits for the last one's end. */
  synchronized long grant(long leaseNs) {
    if (waiting > 0) {
      return 0;
    }
    assume(leaseNs);
    return next;
  }

  /** Somebody else may have granted a lease until now: its end is waited for as if it were ours. */
  synchronized Line assume(long leaseNs) {
    leasedUntilNs = Math.max(leasedUntilNs, System.nanoTime() + leaseNs);
    return this;
  }

  /** Whether the subscriber may be answering. */
  synchronized boolean isLeased() {
    return System.nanoTime() - leasedUntilNs <= 0;
  }

  synchronized void refuseLeases(boolean refuse) {
    waiting += refuse ? 1 : -1;
  }
}

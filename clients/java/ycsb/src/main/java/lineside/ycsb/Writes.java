package lineside.ycsb;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * What this client has written, so that a read can be told to be stale: it is, if it holds a value whose write had been
 * answered before another one of the same row began, which had itself been answered before the read was sent. Values
 * are random, so no two are the same. What others wrote, before this client began, counts as answered at the beginning.
 */
final class Writes {
  /** Newest writes of a row that are remembered: more than there are threads. */
  private static final int KEPT = 64;

  private final ConcurrentMap<String, Deque<Write>> rows = new ConcurrentHashMap<>();

  /** One write. */
  static final class Write {
    private final byte[] value;
    private final long beganNs;
    private long answeredNs = Long.MAX_VALUE;

    private Write(byte[] value, long beganNs) {
      this.value = value;
      this.beganNs = beganNs;
    }
  }

  /** A write begins. */
  Write begin(String key, byte[] value) {
    Write write = new Write(value, System.nanoTime());
    Deque<Write> writes = rows.computeIfAbsent(key, unused -> new ArrayDeque<>());
    synchronized (writes) {
      writes.addLast(write);
      if (writes.size() > KEPT) {
        writes.removeFirst();
      }
    }
    return write;
  }

  /** It was answered: from now on nobody may read what was there before. */
  void answered(String key, Write write) {
    Deque<Write> writes = rows.get(key);
    synchronized (writes) {
      write.answeredNs = System.nanoTime();
    }
  }

  /** Whether {@code value}, read by a request that left at {@code sentNs}, had been replaced by then. */
  boolean isStale(String key, byte[] value, long sentNs) {
    Deque<Write> writes = rows.get(key);
    if (writes == null) {
      return false;
    }
    synchronized (writes) {
      // What is not remembered was answered before everything that is.
      long answeredNs = Long.MIN_VALUE;
      for (Write write : writes) {
        if (Arrays.equals(write.value, value)) {
          answeredNs = write.answeredNs;
        }
      }
      for (Write write : writes) {
        if (write.answeredNs < sentNs && answeredNs < write.beganNs) {
          return true;
        }
      }
      return false;
    }
  }
}

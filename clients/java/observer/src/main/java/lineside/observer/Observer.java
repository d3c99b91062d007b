package lineside.observer;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CoprocessorEnvironment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.coprocessor.ObserverContext;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessor;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessorEnvironment;
import org.apache.hadoop.hbase.coprocessor.RegionObserver;
import org.apache.hadoop.hbase.coprocessor.RegionServerCoprocessor;
import org.apache.hadoop.hbase.coprocessor.RegionServerCoprocessorEnvironment;
import org.apache.hadoop.hbase.regionserver.MiniBatchOperationInProgress;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.Pair;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Coprocessor that notifies Lineside of every change of a table, before the change becomes visible and after it.
 *
 * <p>Each region has its own object of this class. HBase calls {@code preBatchMutate} when the rows of a batch are
 * locked and none of its changes is in the log. The notice is sent then, so that the round trip to Lineside overlaps
 * with the writing of the log. HBase calls {@code postBatchMutate} when the log is written and the batch is not visible
 * yet; this method waits for the acknowledgement. HBase calls {@code postBatchMutateIndispensably} when the batch is
 * visible or has failed, and before its client is answered. These methods throw no exception into HBase: if a notice
 * cannot be sent, the change waits until the leases have expired.
 */
public final class Observer implements RegionCoprocessor, RegionServerCoprocessor, RegionObserver {
  private static final Logger LOG = LoggerFactory.getLogger(Observer.class);
  private static final byte[] NOTHING = new byte[0];

  private final ThreadLocal<Object> batch = new ThreadLocal<>();
  /** Open notice of this thread for changes that other coprocessors added to a batch, or for a bulk load. */
  private final ThreadLocal<Object> more = new ThreadLocal<>();
  private Object closing;
  private Function<Object[], Object> notifier;
  private RegionInfo region;

  @Override
  public Optional<RegionObserver> getRegionObserver() {
    return region == null ? Optional.empty() : Optional.of(this);
  }

  @Override
  @SuppressWarnings("rawtypes")
  public void start(CoprocessorEnvironment environment) {
    quietly(
        () -> {
          Configuration settings = environment.getConfiguration();
          if (environment instanceof RegionServerCoprocessorEnvironment) {
            // Starts the notifier, so that Lineside can get leases from a server that has no region of the table yet.
            Notifier.get(
                settings, ((RegionServerCoprocessorEnvironment) environment).getServerName().toString());
          } else if (environment instanceof RegionCoprocessorEnvironment) {
            RegionCoprocessorEnvironment of = (RegionCoprocessorEnvironment) environment;
            region = of.getRegionInfo();
            if (!region.getTable().isSystemTable() && settings.get("lineside.subscribers") != null) {
              notifier = Notifier.get(settings, of.getServerName().toString());
            }
          }
        });
  }

  // ---- rows ----

  @Override
  public void preBatchMutate(
      ObserverContext<RegionCoprocessorEnvironment> context, MiniBatchOperationInProgress<Mutation> mutations) {
    quietly(
        () -> {
          // Ends the notice of an earlier batch whose end HBase did not report.
          end(batch);
          List<Mutation> all = new ArrayList<>(mutations.size());
          for (int at = 0; at < mutations.size(); at++) {
            all.add(mutations.getOperation(at));
          }
          batch.set(tell(all));
        });
  }

  @Override
  public void postBatchMutate(
      ObserverContext<RegionCoprocessorEnvironment> context, MiniBatchOperationInProgress<Mutation> mutations) {
    quietly(
        () -> {
          List<Mutation> added = new ArrayList<>();
          for (int at = 0; at < mutations.size(); at++) {
            Mutation[] others = mutations.getOperationsFromCoprocessors(at);
            if (others != null) {
              added.addAll(Arrays.asList(others));
            }
          }
          if (!added.isEmpty()) {
            end(more);
            more.set(tell(added));
          }
          await(batch.get());
          await(more.get());
        });
  }

  @Override
  public void postBatchMutateIndispensably(
      ObserverContext<RegionCoprocessorEnvironment> context,
      MiniBatchOperationInProgress<Mutation> mutations,
      boolean success) {
    quietly(
        () -> {
          end(batch);
          end(more);
        });
  }

  private Object tell(List<Mutation> mutations) {
    byte[][] keys = new byte[mutations.size()][];
    long expiresMs = 0;
    for (int at = 0; at < keys.length; at++) {
      Mutation mutation = mutations.get(at);
      keys[at] = mutation.getRow();
      expiresMs = Notice.earlier(expiresMs, end(mutation));
    }
    int flags = 0;
    if (!Notice.fits(region.getTable().getName(), keys)) {
      keys = range(keys);
      flags = Notice.RANGE;
    }
    return tell(flags, keys, expiresMs);
  }

  /** Returns the time at which the mutation's cells expire by their own time to live; 0 if they have none. */
  private static long end(Mutation mutation) {
    long ttlMs = mutation.getTTL();
    if (ttlMs == Long.MAX_VALUE || ttlMs < 0) {
      return 0;
    }
    long firstMs = Long.MAX_VALUE;
    for (List<Cell> cells : mutation.getFamilyCellMap().values()) {
      for (Cell cell : cells) {
        firstMs = Math.min(firstMs, cell.getTimestamp());
      }
    }
    return Math.max(1, Math.min(firstMs, System.currentTimeMillis()) + ttlMs);
  }

  /** Returns the range from the first of the keys (inclusive) to the first key after the last one (exclusive). */
  private static byte[][] range(byte[][] keys) {
    byte[] low = keys[0];
    byte[] high = keys[0];
    for (byte[] key : keys) {
      low = Bytes.compareTo(key, low) < 0 ? key : low;
      high = Bytes.compareTo(key, high) > 0 ? key : high;
    }
    return bounds(low, Bytes.add(high, new byte[1]));
  }

  /** Returns the bounds of a range. An upper bound that is too long for the fast path becomes the table's end. */
  private static byte[][] bounds(byte[] low, byte[] high) {
    return new byte[][] {low, high.length > 64 ? NOTHING : high};
  }

  // ---- ranges ----

  @Override
  public void preBulkLoadHFile(
      ObserverContext<RegionCoprocessorEnvironment> context, List<Pair<byte[], String>> files) {
    quietly(
        () -> {
          end(more);
          more.set(whole(0));
        });
  }

  @Override
  public void postBulkLoadHFile(
      ObserverContext<RegionCoprocessorEnvironment> context,
      List<Pair<byte[], String>> staged,
      Map<byte[], List<Path>> files) {
    quietly(() -> end(more));
  }

  /**
   * Runs before a client can use the region. Invalidates the region's rows at the subscribers, because a server that
   * crashed may not have announced its last changes.
   */
  @Override
  public void postOpen(ObserverContext<RegionCoprocessorEnvironment> context) {
    quietly(
        () -> {
          if (notifier != null) {
            RegionCoprocessorEnvironment environment = context.getEnvironment();
            notifier.apply(
                new Object[] {
                  "opened",
                  environment.getOnlineRegions(),
                  region.getEncodedName(),
                  region.getTable().getName(),
                  environment.getConfiguration().getTrimmedStrings("lineside.subscribers")
                });
            end(whole(Notice.OPENED));
          }
        });
  }

  @Override
  public void preClose(ObserverContext<RegionCoprocessorEnvironment> context, boolean abort) {
    quietly(
        () -> {
          end(closing);
          closing = whole(0);
        });
  }

  @Override
  public void postClose(ObserverContext<RegionCoprocessorEnvironment> context, boolean abort) {
    quietly(
        () -> {
          end(closing);
          closing = null;
          if (notifier != null) {
            notifier.apply(new Object[] {"closed", region.getEncodedName()});
          }
        });
  }

  private Object whole(int flags) {
    Object change = tell(flags | Notice.RANGE, bounds(region.getStartKey(), region.getEndKey()), 0);
    await(change);
    return change;
  }

  // ---- both ----

  private Object tell(int flags, byte[][] keys, long expiresMs) {
    return notifier == null
        ? null
        : notifier.apply(new Object[] {"begin", region.getEncodedName(), flags, keys, expiresMs});
  }

  /** Blocks until no subscriber answers from cached rows that the change affects. */
  private void await(Object change) {
    if (change != null) {
      notifier.apply(new Object[] {"await", change});
    }
  }

  private void end(ThreadLocal<Object> place) {
    Object change = place.get();
    place.remove();
    end(change);
  }

  private void end(Object change) {
    if (change != null) {
      notifier.apply(new Object[] {"end", change});
    }
  }

  private void quietly(Runnable told) {
    try {
      told.run();
    } catch (Throwable error) {
      LOG.error("Lineside is not notified of a change; it gets no more leases for this table", error);
      giveUp();
    }
  }

  private void giveUp() {
    try {
      if (notifier != null) {
        notifier.apply(new Object[] {"untold", region.getEncodedName()});
      }
    } catch (Throwable error) {
      LOG.error("Cannot end Lineside's leases; its cache may be stale until they expire", error);
    }
  }
}

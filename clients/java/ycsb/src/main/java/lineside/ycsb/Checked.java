package lineside.ycsb;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicLong;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * Common part of YCSB's bindings in this package. A row is one cell with all fields in order. Counts stale reads of all
 * threads. The last thread that ends prints {@code LINESIDE reads=N fastpath=N host=N stale=N missing=N errors=N} on
 * standard output.
 */
abstract class Checked extends DB {
  /** Name of the column that holds all fields of a row. */
  static final String FIELD = "field0";
  /** Name of the column family. */
  static final String FAMILY = "entry";

  private static final Writes WRITES = new Writes();
  private static final AtomicLong THREADS = new AtomicLong();
  private static final AtomicLong READS = new AtomicLong();
  private static final AtomicLong FASTPATH = new AtomicLong();
  private static final AtomicLong HOST = new AtomicLong();
  private static final AtomicLong STALE = new AtomicLong();
  private static final AtomicLong MISSING = new AtomicLong();
  private static final AtomicLong ERRORS = new AtomicLong();

  /** Number of fields of a row. {@code fieldBytes} is the number of bytes of each field. */
  private int fields;
  private int fieldBytes;

  /** Part of the system that answered a read. */
  enum Source {
    FASTPATH,
    HOST,
    TABLE
  }

  /** Callback that receives the rows of an answer, one by one. */
  interface Rows {
    void row(String key, byte[] value);
  }

  abstract void connect() throws Exception;

  /** Returns the number of bytes of a row's cell. */
  int valueBytes() {
    return fields * fieldBytes;
  }

  private void split(byte[] value, Map<String, ByteIterator> result) {
    for (int field = 0; field < fields; field++) {
      int at = field * fieldBytes;
      result.put("field" + field, new ByteArrayByteIterator(Arrays.copyOfRange(value, at, at + fieldBytes)));
    }
  }

  /** Concatenates the fields in order. YCSB writes all fields of a row at once ({@code writeallfields}). */
  private byte[] join(Map<String, ByteIterator> values) {
    byte[] value = new byte[valueBytes()];
    for (int field = 0; field < fields; field++) {
      System.arraycopy(values.get("field" + field).toArray(), 0, value, field * fieldBytes, fieldBytes);
    }
    return value;
  }

  /** Reads up to {@code count} rows from {@code key} on. If {@code exact} is true, reads only the row {@code key}. */
  abstract Source ask(String key, int count, boolean exact, Rows rows) throws Exception;

  abstract void put(String key, byte[] value) throws Exception;

  abstract void remove(String key) throws Exception;

  abstract void close() throws Exception;

  @Override
  public void init() throws DBException {
    THREADS.incrementAndGet();
    fields = Integer.parseInt(getProperties().getProperty("fieldcount"));
    fieldBytes = Integer.parseInt(getProperties().getProperty("fieldlength"));
    try {
      connect();
    } catch (Exception error) {
      throw new DBException(error);
    }
  }

  @Override
  public void cleanup() throws DBException {
    try {
      close();
    } catch (Exception error) {
      throw new DBException(error);
    }
    if (THREADS.decrementAndGet() == 0) {
      System.out.println(
          "LINESIDE reads=" + READS + " fastpath=" + FASTPATH + " host=" + HOST + " stale=" + STALE + " missing=" + MISSING
              + " errors=" + ERRORS);
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    boolean[] found = {false};
    Status status =
        read(key, 1, true, (row, value) -> {
          found[0] = true;
          split(value, result);
        });
    if (status == Status.OK && !found[0]) {
      MISSING.incrementAndGet();
      return Status.NOT_FOUND;
    }
    return status;
  }

  @Override
  public Status scan(
      String table,
      String startKey,
      int count,
      Set<String> fields,
      Vector<java.util.HashMap<String, ByteIterator>> result) {
    return read(startKey, count, false, (row, value) -> {
      java.util.HashMap<String, ByteIterator> fieldsOf = new java.util.HashMap<>();
      split(value, fieldsOf);
      result.add(fieldsOf);
    });
  }

  private Status read(String key, int count, boolean exact, Rows rows) {
    long sentNs = System.nanoTime();
    try {
      Source source =
          ask(key, count, exact, (row, value) -> {
            if (WRITES.isStale(row, value, sentNs)) {
              STALE.incrementAndGet();
            }
            rows.row(row, value);
          });
      READS.incrementAndGet();
      if (source != Source.TABLE) {
        (source == Source.FASTPATH ? FASTPATH : HOST).incrementAndGet();
      }
      return Status.OK;
    } catch (Exception error) {
      return failed(error);
    }
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    byte[] value = join(values);
    Writes.Write write = WRITES.begin(key, value);
    try {
      put(key, value);
      WRITES.answered(key, write);
      return Status.OK;
    } catch (Exception error) {
      return failed(error);
    }
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return update(table, key, values);
  }

  @Override
  public Status delete(String table, String key) {
    try {
      remove(key);
      return Status.OK;
    } catch (Exception error) {
      return failed(error);
    }
  }

  private static Status failed(Exception error) {
    if (ERRORS.incrementAndGet() == 1) {
      error.printStackTrace();
    }
    return Status.ERROR;
  }
}

package lineside.ycsb;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * YCSB binding without a database: it records YCSB's operations in a file, so that they can be signed before the
 * measurement starts. It supports one thread, and rows with one field. Its property {@code trace} is the file. A record
 * is {@code op (1 byte: 0 read, 1 write), bytes of the key (2), bytes of the value (4), key, value}; numbers are
 * big-endian, and a read has no value.
 */
public final class Trace extends DB {
  private static final int READ = 0;
  private static final int WRITE = 1;

  private DataOutputStream out;

  @Override
  public void init() throws DBException {
    try {
      out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(getProperties().getProperty("trace"))));
    } catch (IOException error) {
      throw new DBException(error);
    }
  }

  @Override
  public void cleanup() throws DBException {
    try {
      out.close();
    } catch (IOException error) {
      throw new DBException(error);
    }
  }

  private Status put(int op, String key, byte[] value) {
    byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
    try {
      out.writeByte(op);
      out.writeShort(bytes.length);
      out.writeInt(value.length);
      out.write(bytes);
      out.write(value);
      return Status.OK;
    } catch (IOException error) {
      return Status.ERROR;
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return put(READ, key, new byte[0]);
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return put(WRITE, key, values.values().iterator().next().toArray());
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return update(table, key, values);
  }

  @Override
  public Status scan(
      String table, String start, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status delete(String table, String key) {
    return Status.NOT_IMPLEMENTED;
  }
}

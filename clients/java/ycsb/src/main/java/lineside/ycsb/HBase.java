package lineside.ycsb;

import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;

/**
 * YCSB binding for HBase's own client. All threads share one connection, as HBase's documentation recommends. Its
 * properties are {@code zookeeper} (a port on this host) and {@code table}.
 */
public final class HBase extends Checked {
  private static final byte[] FAMILY_BYTES = FAMILY.getBytes(StandardCharsets.UTF_8);
  private static final byte[] FIELD_BYTES = FIELD.getBytes(StandardCharsets.UTF_8);
  private static Connection shared;

  private Table table;

  private static synchronized Connection shared(String port) throws Exception {
    if (shared == null) {
      Configuration settings = HBaseConfiguration.create();
      settings.set("hbase.zookeeper.quorum", "localhost");
      settings.set("hbase.zookeeper.property.clientPort", port);
      shared = ConnectionFactory.createConnection(settings);
    }
    return shared;
  }

  @Override
  void connect() throws Exception {
    Connection connection = shared(getProperties().getProperty("zookeeper"));
    table = connection.getTable(TableName.valueOf(getProperties().getProperty("table")));
  }

  private static byte[] bytes(String key) {
    return key.getBytes(StandardCharsets.UTF_8);
  }

  private static void hand(Result result, Rows rows) {
    byte[] value = result.getValue(FAMILY_BYTES, FIELD_BYTES);
    if (value != null) {
      rows.row(new String(result.getRow(), StandardCharsets.UTF_8), value);
    }
  }

  @Override
  Source ask(String key, int count, boolean exact, Rows rows) throws Exception {
    if (exact) {
      hand(table.get(new Get(bytes(key)).addColumn(FAMILY_BYTES, FIELD_BYTES)), rows);
      return Source.TABLE;
    }
    Scan scan = new Scan().withStartRow(bytes(key)).addColumn(FAMILY_BYTES, FIELD_BYTES).setLimit(count);
    scan.setReadType(Scan.ReadType.PREAD).setCaching(count);
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result result : scanner) {
        hand(result, rows);
      }
    }
    return Source.TABLE;
  }

  @Override
  void put(String key, byte[] value) throws Exception {
    table.put(new Put(bytes(key)).addColumn(FAMILY_BYTES, FIELD_BYTES, value));
  }

  @Override
  void remove(String key) throws Exception {
    table.delete(new Delete(bytes(key)).addColumns(FAMILY_BYTES, FIELD_BYTES));
  }

  @Override
  void close() throws Exception {
    table.close();
  }
}

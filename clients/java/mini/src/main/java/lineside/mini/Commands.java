package lineside.mini;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Commands with which a test changes a table in ways that the client under test does not support. The words of a
 * command are separated by spaces:
 *
 * <ul>
 *   <li>{@code create TABLE FAMILY [SPLIT_KEY ...]}
 *   <li>{@code split TABLE KEY}: returns when a region begins with the key
 *   <li>{@code merge TABLE}: merges its first two regions
 *   <li>{@code move TABLE KEY}: moves the region that contains the key to another server
 *   <li>{@code flush TABLE}, {@code compact TABLE}
 *   <li>{@code truncate TABLE}, {@code drop TABLE}
 *   <li>{@code regions TABLE}: returns the number of regions
 *   <li>the commands of {@link Events}
 * </ul>
 */
final class Commands {
  private static final int PATIENCE_MS = 60_000;

  private final Connection connection;

  Commands(Connection connection) {
    this.connection = connection;
  }

  String run(String line) {
    try (Admin admin = connection.getAdmin()) {
      return ("OK " + run(admin, line.trim().split(" +"))).trim();
    } catch (Exception error) {
      return "ERROR " + String.valueOf(error).replace('\n', ' ');
    }
  }

  private String run(Admin admin, String[] words) throws Exception {
    if (words.length < 2) {
      throw new IllegalArgumentException("expected a command and a table name");
    }
    TableName table = TableName.valueOf(words[1]);
    switch (words[0]) {
      case "create":
        create(admin, table, words);
        return "";
      case "split":
        split(admin, table, Bytes.toBytes(words[2]));
        return "";
      case "merge":
        merge(admin, table);
        return "";
      case "move":
        move(admin, table, Bytes.toBytes(words[2]));
        return "";
      case "flush":
        admin.flush(table);
        return "";
      case "compact":
        admin.majorCompact(table);
        return "";
      case "truncate":
        admin.disableTable(table);
        admin.truncateTable(table, true);
        return "";
      case "drop":
        admin.disableTable(table);
        admin.deleteTable(table);
        return "";
      case "regions":
        return Integer.toString(admin.getRegions(table).size());
      default:
        Events.run(connection, admin, table, words);
        return "";
    }
  }

  private static void create(Admin admin, TableName table, String[] words) throws IOException {
    byte[][] keys = new byte[words.length - 3][];
    for (int at = 0; at < keys.length; at++) {
      keys[at] = Bytes.toBytes(words[at + 3]);
    }
    admin.createTable(
        TableDescriptorBuilder.newBuilder(table)
            .setColumnFamily(ColumnFamilyDescriptorBuilder.of(words[2]))
            .build(),
        keys.length == 0 ? null : keys);
  }

  private static void split(Admin admin, TableName table, byte[] key) throws Exception {
    admin.split(table, key);
    long began = System.nanoTime();
    while (!begins(admin.getRegions(table), key)) {
      if (System.nanoTime() - began > PATIENCE_MS * 1_000_000L) {
        throw new IllegalStateException("the region was not split within " + PATIENCE_MS + " ms");
      }
      Thread.sleep(20);
    }
  }

  private static void merge(Admin admin, TableName table) throws Exception {
    List<RegionInfo> regions = admin.getRegions(table);
    byte[][] first = {regions.get(0).getEncodedNameAsBytes(), regions.get(1).getEncodedNameAsBytes()};
    admin.mergeRegionsAsync(first, false).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
  }

  private static void move(Admin admin, TableName table, byte[] key) throws Exception {
    HRegionLocation from;
    try (RegionLocator locator = admin.getConnection().getRegionLocator(table)) {
      from = locator.getRegionLocation(key, true);
    }
    for (ServerName server : admin.getRegionServers()) {
      if (!server.equals(from.getServerName())) {
        admin.move(from.getRegion().getEncodedNameAsBytes(), server);
        return;
      }
    }
    throw new IllegalStateException("cannot move the region: there is no other region server");
  }

  private static boolean begins(List<RegionInfo> regions, byte[] key) {
    return regions.stream().anyMatch(region -> Bytes.equals(region.getStartKey(), key));
  }
}

package lineside.mini;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.CoprocessorDescriptorBuilder;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;
import org.apache.hadoop.hbase.tool.BulkLoadHFiles;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Commands for all the ways in which rows of a table change. They use the column {@code entry:foo}:
 *
 * <ul>
 *   <li>{@code put TABLE VALUE ROW ...} in one batch; {@code old-put}, {@code skip-wal}, {@code append} and
 *       {@code mutate-row TABLE VALUE ROW}
 *   <li>{@code ttl-put TABLE VALUE ROW MILLISECONDS}
 *   <li>{@code delete-row}, {@code delete-column}, {@code increment TABLE ROW}
 *   <li>{@code check TABLE EXPECTED VALUE ROW}
 *   <li>{@code bulk-load TABLE VALUE ROW FOLDER}
 *   <li>{@code merge TABLE}: merges its first two regions
 *   <li>{@code ttl TABLE SECONDS}: sets the time to live of the family
 *   <li>{@code load TABLE JAR SUBSCRIBERS}: loads the coprocessor
 * </ul>
 */
final class Events {
  private static final byte[] FAMILY = Bytes.toBytes("entry");
  private static final byte[] QUALIFIER = Bytes.toBytes("foo");

  private Events() {}

  static void run(Connection connection, Admin admin, TableName name, String[] words) throws Exception {
    try (Table table = connection.getTable(name)) {
      if (!changeRow(table, words)) {
        changeTable(admin, name, words);
      }
    }
  }

  private static boolean changeRow(Table table, String[] words) throws IOException {
    byte[] first = words.length > 2 ? Bytes.toBytes(words[2]) : null;
    byte[] row = words.length > 3 ? Bytes.toBytes(words[3]) : null;
    switch (words[0]) {
      case "put":
        List<Put> puts = new ArrayList<>();
        for (String one : Arrays.asList(words).subList(3, words.length)) {
          puts.add(put(Bytes.toBytes(one), first));
        }
        table.put(puts);
        return true;
      case "old-put":
        table.put(new Put(row, 1).addColumn(FAMILY, QUALIFIER, first));
        return true;
      case "skip-wal":
        table.put(put(row, first).setDurability(Durability.SKIP_WAL));
        return true;
      case "ttl-put":
        table.put(put(row, first).setTTL(Long.parseLong(words[4])));
        return true;
      case "append":
        table.append(new Append(row).addColumn(FAMILY, QUALIFIER, first));
        return true;
      case "mutate-row":
        RowMutations both = new RowMutations(row);
        both.add(new Delete(row).addColumns(FAMILY, Bytes.toBytes("other")));
        both.add(put(row, first));
        table.mutateRow(both);
        return true;
      case "delete-row":
        table.delete(new Delete(first));
        return true;
      case "delete-column":
        table.delete(new Delete(first).addColumns(FAMILY, QUALIFIER));
        return true;
      case "increment":
        table.increment(new Increment(first).addColumn(FAMILY, QUALIFIER, 1));
        return true;
      case "check":
        byte[] checked = Bytes.toBytes(words[4]);
        table.checkAndMutate(
            CheckAndMutate.newBuilder(checked).ifEquals(FAMILY, QUALIFIER, first).build(put(checked, row)));
        return true;
      default:
        return false;
    }
  }

  private static Put put(byte[] row, byte[] value) {
    return new Put(row).addColumn(FAMILY, QUALIFIER, value);
  }

  private static void changeTable(Admin admin, TableName table, String[] words) throws Exception {
    switch (words[0]) {
      case "bulk-load":
        bulkLoad(admin.getConfiguration(), table, words);
        break;
      case "merge":
        List<RegionInfo> regions = admin.getRegions(table);
        byte[][] two = {regions.get(0).getEncodedNameAsBytes(), regions.get(1).getEncodedNameAsBytes()};
        admin.mergeRegionsAsync(two, false).get();
        break;
      case "ttl":
        ColumnFamilyDescriptor family = admin.getDescriptor(table).getColumnFamily(FAMILY);
        int seconds = Integer.parseInt(words[2]);
        admin.modifyColumnFamily(
            table, ColumnFamilyDescriptorBuilder.newBuilder(family).setTimeToLive(seconds).build());
        break;
      case "load":
        admin.modifyTable(
            TableDescriptorBuilder.newBuilder(admin.getDescriptor(table))
                .setCoprocessor(
                    CoprocessorDescriptorBuilder.newBuilder("lineside.observer.Observer")
                        .setJarPath(new java.io.File(words[2]).toURI().toString())
                        .build())
                .setValue("lineside.subscribers", words[3])
                .build());
        break;
      default:
        throw new IllegalArgumentException("unknown command " + words[0]);
    }
  }

  private static void bulkLoad(Configuration settings, TableName table, String[] words) throws IOException {
    Path file = new Path(new java.io.File(words[4]).toURI().toString(), "entry/file");
    FileSystem files = file.getFileSystem(settings);
    try (HFile.Writer writer =
        HFile.getWriterFactoryNoCache(settings)
            .withPath(files, file)
            .withFileContext(new HFileContextBuilder().build())
            .create()) {
      byte[] value = Bytes.toBytes(words[2]);
      long now = System.currentTimeMillis();
      writer.append(new KeyValue(Bytes.toBytes(words[3]), FAMILY, QUALIFIER, now, value));
    }
    BulkLoadHFiles.create(settings)
        .bulkLoad(table, Collections.singletonMap(FAMILY, Collections.singletonList(file)));
  }
}

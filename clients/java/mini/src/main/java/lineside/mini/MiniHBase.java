package lineside.mini;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.LocalHBaseCluster;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.thrift2.ThriftServer;
import org.apache.hadoop.hbase.zookeeper.MiniZooKeeperCluster;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * A complete HBase in one JVM: ZooKeeper, a master, region servers and the Thrift 2 gateway, on free ports of the
 * loopback address, with its data in a folder.
 *
 * <p>{@code MiniHBase FOLDER REGION_SERVERS}. Every system property that begins with {@code hbase.} or {@code
 * lineside.} is a setting of HBase. When HBase runs, the program prints {@code READY zookeeper=P master=P
 * regionserver=P thrift=P}, where each P is a port ({@code regionserver} is the port of the first region server, or 0
 * if there is none). Then it executes the commands on its standard input, one per line ({@link Commands}), and answers
 * each with a line that begins with {@code OK} or {@code ERROR}. It ends at the end of its input. The local file system
 * does not sync the log, so a table survives a killed region server, but not a crash of the machine.
 */
public final class MiniHBase {
  private static final int PATIENCE_MS = 60_000;

  private MiniHBase() {}

  public static void main(String[] args) throws Exception {
    // Standard output carries only answers to commands. Other output, such as the log, goes to standard error.
    PrintStream answers = System.out;
    System.setOut(System.err);
    // Without this mode, the second region server in the JVM could not register its metrics under the same names.
    DefaultMetricsSystem.setMiniClusterMode(true);
    File folder = new File(args[0]);
    int regionServers = Integer.parseInt(args[1]);
    Configuration settings = settings(folder);
    MiniZooKeeperCluster zookeeper = new MiniZooKeeperCluster(settings);
    int zookeeperPort = zookeeper.startup(new File(folder, "zookeeper"));
    settings.setInt("hbase.zookeeper.property.clientPort", zookeeperPort);
    LocalHBaseCluster cluster = new LocalHBaseCluster(settings, regionServers);
    start(cluster, regionServers);
    int thriftPort = freePort();
    startThrift(settings, thriftPort);
    await(() -> cluster.getActiveMaster() != null);
    // Without a region server the master never becomes initialised, so this does not wait for it.
    if (regionServers > 0) {
      await(() -> cluster.getActiveMaster().isInitialized());
    }
    await(() -> listens(thriftPort));
    int regionServerPort = 0;
    if (regionServers > 0) {
      ServerName first = cluster.getRegionServer(0).getServerName();
      regionServerPort = first.getPort();
    }
    int masterPort = cluster.getActiveMaster().getServerName().getPort();
    answers.println(
        "READY zookeeper=" + zookeeperPort + " master=" + masterPort + " regionserver=" + regionServerPort
            + " thrift=" + thriftPort);
    try (Connection connection = ConnectionFactory.createConnection(settings);
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      Commands commands = new Commands(connection);
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        answers.println(commands.run(line));
      }
    }
    // No data needs to be saved, because the parent process removes the folder.
    Runtime.getRuntime().halt(0);
  }

  private static Configuration settings(File folder) {
    Configuration settings = HBaseConfiguration.create();
    settings.set("hbase.rootdir", new File(folder, "data").toURI().toString());
    settings.set("hbase.tmp.dir", new File(folder, "tmp").getPath());
    settings.set("hbase.zookeeper.quorum", "localhost");
    settings.setBoolean("hbase.zookeeper.property.admin.enableServer", false);
    settings.setBoolean("hbase.unsafe.stream.capability.enforce", false);
    settings.setBoolean(LocalHBaseCluster.ASSIGN_RANDOM_PORTS, true);
    for (String who : new String[] {"master", "regionserver"}) {
      settings.set("hbase." + who + ".hostname", "localhost");
      settings.set("hbase." + who + ".ipc.address", "127.0.0.1");
      settings.setInt("hbase." + who + ".info.port", -1);
    }
    settings.setInt("hbase.thrift.info.port", -1);
    settings.set("hbase.regionserver.thrift.ipaddress", "127.0.0.1");
    // These settings make HBase start within seconds.
    settings.setInt("hbase.regionserver.msginterval", 200);
    settings.setInt("hbase.master.wait.on.regionservers.mintostart", 1);
    settings.setInt("hbase.master.wait.on.regionservers.timeout", 500);
    settings.setInt("hbase.master.wait.on.regionservers.interval", 100);
    for (String name : System.getProperties().stringPropertyNames()) {
      if (name.startsWith("hbase.") || name.startsWith("lineside.")) {
        settings.set(name, System.getProperty(name));
      }
    }
    return settings;
  }

  /** Starts the cluster. The master waits for region servers, which other JVMs may start later. */
  private static void start(LocalHBaseCluster cluster, int regionServers) throws IOException {
    if (regionServers > 0) {
      cluster.startup();
      return;
    }
    Thread thread =
        new Thread(
            () -> {
              try {
                cluster.startup();
              } catch (IOException error) {
                error.printStackTrace();
              }
            },
            "cluster");
    thread.setDaemon(true);
    thread.start();
  }

  private static void startThrift(Configuration settings, int port) {
    Thread thread =
        new Thread(
            () -> {
              try {
                settings.setInt("hbase.regionserver.thrift.port", port);
                new ThriftServer(settings).run(new String[] {"start", "-p", Integer.toString(port)});
              } catch (Exception error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
              }
            },
            "thrift");
    thread.setDaemon(true);
    thread.start();
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private static boolean listens(int port) {
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      return true;
    } catch (IOException refused) {
      return false;
    }
  }

  private interface Condition {
    boolean holds();
  }

  private static void await(Condition condition) throws InterruptedException {
    long began = System.nanoTime();
    while (!condition.holds()) {
      if (System.nanoTime() - began > PATIENCE_MS * 1_000_000L) {
        throw new IllegalStateException("HBase did not start within " + PATIENCE_MS + " ms");
      }
      Thread.sleep(20);
    }
  }
}

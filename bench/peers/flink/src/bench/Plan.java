package bench;

import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** What this run is told, as a properties file. */
final class Plan implements Serializable {
    final Stream stream;
    final String backend;
    final int parallelism;
    final double seconds;
    final double warmup;
    final long most;
    final long rate;
    final long watchdogMillis;
    final String folder;

    /** Of a run at a rate: events before this number warm it up. */
    long firstCounted() {
        return (long) (warmup * rate);
    }

    Plan(Path file) throws java.io.IOException {
        Properties given = new Properties();
        try (var reader = Files.newBufferedReader(file)) {
            given.load(reader);
        }
        stream = new Stream(
                Long.parseLong(given.getProperty("seed")),
                Integer.parseInt(given.getProperty("agents")),
                given.getProperty("mix"),
                Long.parseLong(given.getProperty("every")));
        backend = given.getProperty("backend");
        parallelism = Integer.parseInt(given.getProperty("parallelism"));
        seconds = Double.parseDouble(given.getProperty("seconds"));
        warmup = Double.parseDouble(given.getProperty("warmup"));
        most = Long.parseLong(given.getProperty("most"));
        rate = Long.parseLong(given.getProperty("rate"));
        watchdogMillis = (long) (1000 * Double.parseDouble(given.getProperty("watchdog")));
        folder = given.getProperty("folder");
    }
}

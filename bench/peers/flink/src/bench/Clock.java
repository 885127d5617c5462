package bench;

import java.util.TreeMap;

/** One clock for the source and the sink: both live in this process. */
final class Clock {
    private static long begin;
    private static final TreeMap<Integer, Long> counts = new TreeMap<>();
    private static final TreeMap<Integer, Long> warm = new TreeMap<>();
    private static double told;
    static double warmup;
    static double warmAt;

    private Clock() {}

    static synchronized void begin() {
        if (begin == 0) begin = System.nanoTime();
    }

    static double seconds() {
        return (System.nanoTime() - begin) * 1e-9;
    }

    static long due(long number, long rate) {
        return begin + (long) (number * 1e9 / rate);
    }

    static double latency(long number, long rate) {
        return (System.nanoTime() - due(number, rate)) * 1e-9;
    }

    static synchronized void look(int lane, long at, double seconds) {
        if (seconds >= warmup && !warm.containsKey(lane)) {
            warm.put(lane, at);
            warmAt = Math.max(warmAt, seconds);
        }
        counts.put(lane, at);
        if (seconds - told >= 5.0) {
            told = seconds;
            long sum = counts.values().stream().mapToLong(n -> n).sum();
            System.err.printf("    flink: %3.0f s, %.2f M events made%n", seconds, sum / 1e6);
        }
    }

    static synchronized void ended(int lane, long at) {
        counts.put(lane, at);
    }

    static synchronized String counts() {
        return counts.values().toString();
    }

    static synchronized long counted() {
        long all = counts.values().stream().mapToLong(n -> n).sum();
        return all - warm.values().stream().mapToLong(n -> n).sum();
    }
}

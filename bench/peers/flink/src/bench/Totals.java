package bench;

import java.util.Arrays;
import java.util.Collection;
import org.apache.flink.api.connector.sink2.Committer;

/** What was committed, over all subtasks, as the result of the run. */
final class Totals {
    private static final long[] counts = new long[Output.ACTIONS.length];
    private static final long[] sums = new long[Output.ACTIONS.length];
    private static final long[] states = new long[Output.FIELDS.length];
    private static long agents;
    private static double seconds; // when the last commit was made
    private static double handingOver = Double.MAX_VALUE; // when the first state was handed out
    private static double handedOver; // and the last one: the check's time, not the program's
    private static final Samples committed = new Samples();
    private static final Samples arrived = new Samples();

    private Totals() {}

    static final class Adder implements Committer<CountingSink.Tally> {
        private final long rate;

        Adder(long rate) {
            this.rate = rate;
        }

        @Override
        public void commit(Collection<CommitRequest<CountingSink.Tally>> requests) {
            for (CommitRequest<CountingSink.Tally> request : requests) add(request.getCommittable(), rate);
        }

        @Override
        public void close() {}
    }

    private static synchronized void add(CountingSink.Tally tally, long rate) {
        for (int n = 0; n < counts.length; n++) {
            counts[n] += tally.counts[n];
            sums[n] += tally.sums[n];
        }
        for (int n = 0; n < states.length; n++) states[n] += tally.states[n];
        agents += tally.agents;
        for (int n = 0; n < tally.timed; n++) committed.add(Clock.latency(tally.numbers[n], rate));
        seconds = Clock.seconds();
    }

    static synchronized void handed() {
        double now = Clock.seconds();
        handingOver = Math.min(handingOver, now);
        handedOver = Math.max(handedOver, now);
    }

    static synchronized void arrived(double latency) {
        arrived.add(latency);
    }

    static final class Samples {
        private double[] values = new double[1024];
        private int count;

        void add(double value) {
            if (count == values.length) values = Arrays.copyOf(values, 2 * count);
            values[count++] = value;
        }

        String json() {
            double[] all = Arrays.copyOf(values, count);
            Arrays.sort(all);
            StringBuilder text = new StringBuilder("{\"samples\":" + count);
            double[] shares = {0.5, 0.99, 0.999};
            String[] names = {"p50_ms", "p99_ms", "p999_ms"};
            for (int n = 0; n < shares.length; n++) {
                if (count * (1 - shares[n]) >= 1) {
                    text.append(",\"" + names[n] + "\":" + all[(int) (count * shares[n])] * 1000);
                }
            }
            if (count > 0) text.append(",\"max_ms\":" + all[count - 1] * 1000);
            return text + "}";
        }
    }

    static synchronized String json() {
        StringBuilder text = new StringBuilder("{\"counts\":" + Clock.counts());
        text.append(",\"counted\":" + Clock.counted());
        text.append(",\"seconds\":" + (seconds - Clock.warmAt - Math.max(0.0, handedOver - handingOver)));
        text.append(",\"agents\":" + agents + ",\"states\":{");
        for (int n = 0; n < states.length; n++) {
            text.append(n == 0 ? "" : ",");
            text.append("\"" + Output.FIELDS[n] + "\":" + Long.toUnsignedString(states[n]));
        }
        text.append("},\"actions\":{");
        for (int n = 0; n < counts.length; n++) {
            text.append(n == 0 ? "" : ",");
            text.append("\"" + Output.ACTIONS[n] + "\":[" + counts[n] + ",");
            text.append(Long.toUnsignedString(sums[n]) + "]");
        }
        text.append("},\"latency\":" + committed.json());
        text.append(",\"arrival\":" + arrived.json());
        return text + "}";
    }
}

package bench;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Throws actions away, but counts and hashes them; they count when their checkpoint is complete. */
final class CountingSink implements Sink<Output>, SupportsCommitter<CountingSink.Tally> {
    private final long rate;
    private final long firstCounted;

    CountingSink(long rate, long firstCounted) {
        this.rate = rate;
        this.firstCounted = firstCounted;
    }

    /** What came between two checkpoints. */
    static final class Tally implements Serializable {
        final long[] counts = new long[Output.ACTIONS.length];
        final long[] sums = new long[Output.ACTIONS.length];
        final long[] states = new long[Output.FIELDS.length];
        long agents;
        long[] numbers = new long[0]; // of the events behind actions, for latency
        int timed;

        void take(Output output, long rate, long firstCounted) {
            if (output.kind < Output.STATE) {
                counts[output.kind]++;
                sums[output.kind] += Stream.hash(output.agent, output.value);
                long number = rate > 0 ? Stream.numberOf(output.value) : -1;
                if (rate > 0 && number >= firstCounted) {
                    if (timed == numbers.length) numbers = Arrays.copyOf(numbers, 2 * timed + 16);
                    numbers[timed++] = number;
                    Totals.arrived(Clock.latency(number, rate));
                }
                return;
            }
            Totals.handed();
            if (output.kind == Output.STATE) agents++;
            for (int n = 0; n < states.length; n++) states[n] += output.hashes[n];
        }
    }

    @Override
    public SinkWriter<Output> createWriter(WriterInitContext context) {
        return new Writer(rate, firstCounted);
    }

    @Override
    public Committer<Tally> createCommitter(CommitterInitContext context) {
        return new Totals.Adder(rate);
    }

    @Override
    public SimpleVersionedSerializer<Tally> getCommittableSerializer() {
        return new TallySerializer();
    }

    private static final class Writer implements CommittingSinkWriter<Output, Tally> {
        private final long rate;
        private final long firstCounted;
        private Tally tally = new Tally();

        Writer(long rate, long firstCounted) {
            this.rate = rate;
            this.firstCounted = firstCounted;
        }

        @Override
        public void write(Output output, Context context) {
            tally.take(output, rate, firstCounted);
        }

        @Override
        public void flush(boolean end) {}

        @Override
        public Collection<Tally> prepareCommit() {
            Tally done = tally;
            tally = new Tally();
            return List.of(done);
        }

        @Override
        public void close() {}
    }

    private static final class TallySerializer implements SimpleVersionedSerializer<Tally> {
        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Tally tally) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
                out.writeObject(tally);
            }
            return bytes.toByteArray();
        }

        @Override
        public Tally deserialize(int version, byte[] bytes) throws IOException {
            try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
                return (Tally) in.readObject();
            } catch (ClassNotFoundException error) {
                throw new IOException(error);
            }
        }
    }
}

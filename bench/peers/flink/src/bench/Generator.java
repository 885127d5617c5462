package bench;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceEnumerator;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceReader;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/** Makes the events of the stream, a lane per subtask, as fast as they are taken or at a rate. */
final class Generator implements Source<Event, Generator.Lane, Collection<Generator.Lane>> {
    private final Plan plan;

    Generator(Plan plan) {
        this.plan = plan;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<Event, Lane> createReader(SourceReaderContext context) {
        return new IteratorSourceReader<>(context);
    }

    @Override
    public SplitEnumerator<Lane, Collection<Lane>> createEnumerator(SplitEnumeratorContext<Lane> context) {
        List<Lane> lanes = new ArrayList<>();
        for (int n = 0; n < plan.parallelism; n++) lanes.add(new Lane(plan, n, 0));
        return new IteratorSourceEnumerator<>(context, lanes);
    }

    @Override
    public SplitEnumerator<Lane, Collection<Lane>> restoreEnumerator(
            SplitEnumeratorContext<Lane> context, Collection<Lane> lanes) {
        return new IteratorSourceEnumerator<>(context, lanes);
    }

    @Override
    public SimpleVersionedSerializer<Lane> getSplitSerializer() {
        return new LaneSerializer(plan);
    }

    @Override
    public SimpleVersionedSerializer<Collection<Lane>> getEnumeratorCheckpointSerializer() {
        return new LanesSerializer(plan);
    }

    /** The events lane, lane + lanes, … of the stream, from `first` of them on. */
    static final class Lane implements IteratorSourceSplit<Event, Events> {
        final Plan plan;
        final int lane;
        final long first;

        Lane(Plan plan, int lane, long first) {
            this.plan = plan;
            this.lane = lane;
            this.first = first;
        }

        @Override
        public String splitId() {
            return Integer.toString(lane);
        }

        @Override
        public Events getIterator() {
            return new Events(this);
        }

        @Override
        public IteratorSourceSplit<Event, Events> getUpdatedSplitForIterator(Events events) {
            return new Lane(plan, lane, events.at);
        }
    }

    static final class Events implements Iterator<Event> {
        private static final int LOOK = 1024; // events between looks at the clock

        private final Plan plan;
        private final Lane lane;
        private final long least;
        long at;

        Events(Lane lane) {
            this.plan = lane.plan;
            this.lane = lane;
            this.at = lane.first;
            this.least = (plan.stream.agents + plan.parallelism - 1) / plan.parallelism;
            Clock.begin();
        }

        @Override
        public boolean hasNext() {
            if (plan.most > 0 || plan.rate > 0) {
                long total = plan.most > 0 ? plan.most : (long) ((plan.warmup + plan.seconds) * plan.rate);
                if (at * plan.parallelism + lane.lane < total) return true;
                Clock.ended(lane.lane, at);
                return false;
            }
            if (at % LOOK != 0 || at < least) return true;
            double seconds = Clock.seconds();
            Clock.look(lane.lane, at, seconds);
            if (seconds < plan.warmup + plan.seconds) return true;
            Clock.ended(lane.lane, at);
            return false;
        }

        @Override
        public Event next() {
            long number = at * plan.parallelism + lane.lane;
            if (plan.rate > 0) {
                long due = Clock.due(number, plan.rate);
                for (long rest = due - System.nanoTime(); rest > 0; rest = due - System.nanoTime()) {
                    LockSupport.parkNanos(rest);
                }
            }
            Event event = new Event();
            plan.stream.fill(event, number);
            at++;
            return event;
        }
    }

    private static final class LaneSerializer implements SimpleVersionedSerializer<Lane> {
        private final Plan plan;

        LaneSerializer(Plan plan) {
            this.plan = plan;
        }

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Lane lane) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeInt(lane.lane);
            out.writeLong(lane.first);
            return bytes.toByteArray();
        }

        @Override
        public Lane deserialize(int version, byte[] bytes) throws IOException {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            return new Lane(plan, in.readInt(), in.readLong());
        }
    }

    private static final class LanesSerializer implements SimpleVersionedSerializer<Collection<Lane>> {
        private final LaneSerializer one;

        LanesSerializer(Plan plan) {
            one = new LaneSerializer(plan);
        }

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Collection<Lane> lanes) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            for (Lane lane : lanes) bytes.write(one.serialize(lane));
            return bytes.toByteArray();
        }

        @Override
        public Collection<Lane> deserialize(int version, byte[] bytes) throws IOException {
            List<Lane> lanes = new ArrayList<>();
            for (int at = 0; at < bytes.length; at += 12) {
                lanes.add(one.deserialize(1, java.util.Arrays.copyOfRange(bytes, at, at + 12)));
            }
            return lanes;
        }
    }
}

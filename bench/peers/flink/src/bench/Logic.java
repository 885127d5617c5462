package bench;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.streaming.api.TimeDomain;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/** The drone program. Messages leave by a side output: Flink has no way back into an operator. */
final class Logic extends KeyedProcessFunction<String, Event, Output> {
    static final OutputTag<Event> MESSAGES = new OutputTag<>("messages", Serializers.Info.EVENT);
    // The last watermark of a bounded stream fires these: so every state is handed out at its end.
    private static final long AT_THE_END = Long.MAX_VALUE - 1;

    private final long watchdogMillis;
    private final boolean late; // the second operator, which takes messages only
    private transient ValueState<Drone> state;

    Logic(long watchdogMillis, boolean late) {
        this.watchdogMillis = watchdogMillis;
        this.late = late;
    }

    @Override
    public void open(OpenContext context) {
        state = getRuntimeContext().getState(new ValueStateDescriptor<>("drone", Serializers.Info.DRONE));
    }

    @Override
    public void processElement(Event event, Context context, Collector<Output> out) throws Exception {
        Drone drone = state.value();
        if (drone == null) {
            drone = new Drone();
            context.timerService().registerEventTimeTimer(AT_THE_END);
        }
        switch (event.kind) {
            case Stream.POSITION:
                moved(drone, event, context, out);
                break;
            case Stream.BATTERY:
                drained(drone, event, out);
                break;
            case Stream.HEARTBEAT:
                drone.beats++;
                break;
            case Stream.NEAR:
                context.output(MESSAGES, Event.warned(event.peer, event.a));
                break;
            default:
                warned(drone, event, out);
        }
        state.update(drone);
    }

    private void moved(Drone drone, Event event, Context context, Collector<Output> out) {
        drone.lat = event.a;
        drone.lon = event.b;
        drone.alt = event.c;
        drone.moves++;
        if (event.c > 100.0) {
            out.collect(Output.action(Output.DESCEND, event.key, event.c - 20.0));
        }
        if (watchdogMillis > 0) {
            // One timer is under way per drone; when it fires too early it is set again. To delete
            // and register one per event would do the same and cost more.
            long now = context.timerService().currentProcessingTime();
            if (drone.deadline == 0) {
                context.timerService().registerProcessingTimeTimer(now + watchdogMillis);
            }
            drone.deadline = now + watchdogMillis;
        }
    }

    private void drained(Drone drone, Event event, Collector<Output> out) {
        drone.battery = event.a;
        if (!drone.landing && event.a < 15.0) {
            drone.landing = true;
            out.collect(Output.action(Output.LAND, event.key, 0.0));
        } else if (drone.landing && event.a >= 90.0) {
            drone.landing = false;
        }
    }

    private void warned(Drone drone, Event event, Collector<Output> out) {
        drone.warnings++;
        if (event.a < drone.closest) drone.closest = event.a;
        if (event.a < 0.015625) {
            out.collect(Output.action(Output.AVOID, event.key, event.a));
        }
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Output> out) throws Exception {
        Drone drone = state.value();
        String key = context.getCurrentKey();
        if (context.timeDomain() == TimeDomain.EVENT_TIME) {
            out.collect(late ? Output.lateState(key, drone) : Output.state(key, drone));
        } else if (drone.deadline > timestamp) {
            context.timerService().registerProcessingTimeTimer(drone.deadline);
        } else {
            drone.deadline = 0;
            state.update(drone);
            out.collect(Output.action(Output.LOST, key, 0.0));
        }
    }
}

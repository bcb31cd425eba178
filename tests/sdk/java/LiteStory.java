import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A lite pull consumer of an assigned queue, step by step, as in tests/parity/pull_steps.py. */
final class LiteStory {
    private static final long POLL_MS = 5_000;

    private final String namesrv;
    private final JSONObject answers = new JSONObject(true);

    LiteStory(String namesrv) {
        this.namesrv = namesrv;
    }

    static void enrol(Map<String, Actor.Deed> deeds, String namesrv) {
        deeds.put("lite story", asked -> new LiteStory(namesrv).of(asked.getString("topic"), asked.getString("group")));
    }

    private JSONObject of(String topic, String group) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
            MessageQueue queue = queues.iterator().next();
            consumer.assign(queues);
            step("the first poll", () -> offsets(consumer.poll(POLL_MS)));
            step("committed before", () -> consumer.committed(queue));
            consumer.commit(Collections.singleton(queue), true);
            step("committed after", () -> consumer.committed(queue));
            step("seek there", () -> seek(consumer, queue, 20));
            step("polled from there", () -> offsets(consumer.poll(POLL_MS)));
            step("seek too far", () -> seek(consumer, queue, 1_000));
            consumer.seekToEnd(queue);
            step("nothing at the end", () -> offsets(consumer.poll(500)));
            consumer.pause(queues);
            consumer.seekToBegin(queue);
            step("nothing of a paused queue", () -> offsets(consumer.poll(500)));
            consumer.resume(queues);
            step("polled from the beginning", () -> offsets(consumer.poll(POLL_MS)));
            step("the offset of a time before all", () -> consumer.offsetForTimestamp(queue, 1L));
        } finally {
            consumer.shutdown();
        }
        return answers;
    }

    private void step(String title, Callable<Object> act) {
        try {
            answers.put(title, act.call());
        } catch (Exception refused) {
            answers.put(title, "refused");
        }
    }

    private static Object seek(DefaultLitePullConsumer consumer, MessageQueue queue, long offset) throws Exception {
        consumer.seek(queue, offset);
        return null;
    }

    private static JSONArray offsets(List<MessageExt> messages) {
        JSONArray offsets = new JSONArray();
        messages.forEach(message -> offsets.add(message.getQueueOffset()));
        return offsets;
    }
}

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers without listeners: a pull consumer with one held pull, or a lite pull consumer that polls. */
final class Pullers {
    private static final long POLL_MS = 200;

    private final String namesrv;
    private final Map<String, DefaultMQPullConsumer> pulling = new ConcurrentHashMap<>();
    private final Map<String, DefaultLitePullConsumer> polling = new ConcurrentHashMap<>();

    Pullers(String namesrv) {
        this.namesrv = namesrv;
    }

    void enrol(Map<String, Actor.Deed> deeds) {
        deeds.put("start puller", this::startPuller);
        deeds.put("pull", this::pull);
        deeds.put("stop puller", this::stopPuller);
        deeds.put("start lite", this::startLite);
        deeds.put("stop lite", this::stopLite);
    }

    private Object startPuller(JSONObject asked) throws Exception {
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer(asked.getString("group"));
        puller.setNamesrvAddr(namesrv);
        puller.start();
        JSONArray queues = new JSONArray();
        for (MessageQueue queue : puller.fetchSubscribeMessageQueues(asked.getString("topic"))) {
            queues.add(Consumers.describe(queue));
        }
        pulling.put(asked.getString("puller"), puller);
        return queues;
    }

    /** One pull that the broker may hold for 20 s, with the times at which it began and ended. */
    private Object pull(JSONObject asked) throws Exception {
        MessageQueue queue = new MessageQueue(asked.getString("topic"), asked.getString("broker"), asked.getIntValue("queue"));
        long began = System.currentTimeMillis();
        Actor.tell(new JSONObject(true).fluentPut("event", "pulling").fluentPut("puller", asked.getString("puller")));
        PullResult result = pulling.get(asked.getString("puller")).pullBlockIfNotFound(queue, "*", asked.getLongValue("offset"), 32);
        JSONObject told = new JSONObject(true)
                .fluentPut("status", result.getPullStatus().name())
                .fluentPut("next", result.getNextBeginOffset())
                .fluentPut("min", result.getMinOffset())
                .fluentPut("max", result.getMaxOffset())
                .fluentPut("began_ms", began)
                .fluentPut("ended_ms", System.currentTimeMillis());
        JSONArray messages = new JSONArray();
        if (result.getMsgFoundList() != null) {
            result.getMsgFoundList().forEach(message -> messages.add(Consumers.describe(message)));
        }
        return told.fluentPut("messages", messages);
    }

    private Object stopPuller(JSONObject asked) {
        pulling.remove(asked.getString("puller")).shutdown();
        return true;
    }

    private Object startLite(JSONObject asked) throws Exception {
        String name = asked.getString("consumer");
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(asked.getString("group"));
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(asked.getString("topic"), "*");
        consumer.setAutoCommit(false);
        consumer.start();
        polling.put(name, consumer);
        Thread loop = new Thread(() -> poll(name, consumer), "poll-" + name);
        loop.setDaemon(true);
        loop.start();
        return true;
    }

    private void poll(String name, DefaultLitePullConsumer consumer) {
        while (polling.get(name) == consumer) {
            for (MessageExt message : consumer.poll(POLL_MS)) {
                Actor.tell(Consumers.describe(message).fluentPut("event", "consumed").fluentPut("consumer", name));
            }
        }
    }

    private Object stopLite(JSONObject asked) {
        DefaultLitePullConsumer consumer = polling.remove(asked.getString("consumer"));
        consumer.commitSync();
        consumer.shutdown();
        return true;
    }
}

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Push consumers of every kind, one message a call.
 *
 * <p>{@code "refuse": {"KEY": level}} answers the first delivery of the message with that key by RECONSUME_LATER, with
 * that delay level (0: the broker chooses it); with {@code "refuse_always"} every delivery. An orderly consumer suspends
 * its queue instead. {@code "pause_ms"} makes every call slow. {@code "cached_max"} is how many messages of a queue are
 * pulled in advance; a consumer that stops consumes those first. {@code "sql"} is a filter in place of {@code "tags"}.
 */
final class Consumers {
    private final String namesrv;
    private final Map<String, DefaultMQPushConsumer> started = new ConcurrentHashMap<>();

    Consumers(String namesrv) {
        this.namesrv = namesrv;
    }

    void enrol(Map<String, Actor.Deed> deeds) {
        deeds.put("start consumer", this::start);
        deeds.put("assigned", this::assigned);
        deeds.put("stop consumer", this::stop);
    }

    private Object start(JSONObject asked) throws Exception {
        String name = asked.getString("consumer");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
                asked.getString("group"), null, new AllocateMessageQueueAveragely(), asked.getBooleanValue("trace"), null);
        consumer.setNamesrvAddr((String) asked.getOrDefault("namesrv", namesrv));
        consumer.setInstanceName(name + "-" + System.nanoTime()); // two consumers of one group are two clients
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(5_000); // the offsets of messages in consumption are stored too
        if (asked.containsKey("cached_max")) {
            consumer.setPullBatchSize(asked.getIntValue("cached_max"));
            consumer.setPullThresholdForQueue(asked.getIntValue("cached_max"));
        }
        if (asked.containsKey("heartbeat_ms")) {
            consumer.setHeartbeatBrokerInterval(asked.getIntValue("heartbeat_ms"));
        }
        if (asked.containsKey("poll_ms")) {
            consumer.setPollNameServerInterval(asked.getIntValue("poll_ms"));
        }
        if (asked.getBooleanValue("broadcasting")) {
            broadcast(consumer);
        }
        if (asked.containsKey("sql")) {
            consumer.subscribe(asked.getString("topic"), MessageSelector.bySql(asked.getString("sql")));
        } else {
            consumer.subscribe(asked.getString("topic"), (String) asked.getOrDefault("tags", "*"));
        }
        if (asked.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> orderly(asked, messages, context));
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> concurrently(asked, messages, context));
        }
        consumer.start();
        started.put(name, consumer);
        return consumer.buildMQClientId();
    }

    /** The class of the model is in different packages in 4.9 and in 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        Class model = consumer.getMessageModel().getClass();
        DefaultMQPushConsumer.class.getMethod("setMessageModel", model).invoke(consumer, Enum.valueOf(model, "BROADCASTING"));
    }

    private Object stop(JSONObject asked) {
        started.remove(asked.getString("consumer")).shutdown();
        return true;
    }

    /**
     * The queues of its topic that the consumer holds, {@code "locked"} if an orderly one may consume them;
     * {@code "nudge"} rebalances first, which otherwise happens every 20 s.
     */
    private Object assigned(JSONObject asked) {
        JSONArray queues = new JSONArray();
        DefaultMQPushConsumer consumer = started.get(asked.getString("consumer"));
        if (asked.getBooleanValue("nudge")) {
            consumer.getDefaultMQPushConsumerImpl().doRebalance();
        }
        consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().forEach((queue, processed) -> {
            if (queue.getTopic().equals(asked.getString("topic"))) {
                queues.add(describe(queue).fluentPut("locked", processed.isLocked()));
            }
        });
        return queues;
    }

    private static ConsumeConcurrentlyStatus concurrently(JSONObject asked, List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        MessageExt message = messages.get(0);
        Integer level = refusal(asked, message);
        pause(asked);
        Requests.keep(message);
        tell(asked, message, level != null);
        if (level == null) {
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        }
        context.setDelayLevelWhenNextConsume(level);
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    private static ConsumeOrderlyStatus orderly(JSONObject asked, List<MessageExt> messages, ConsumeOrderlyContext context) {
        MessageExt message = messages.get(0);
        Integer level = refusal(asked, message);
        pause(asked);
        tell(asked, message, level != null);
        context.setSuspendCurrentQueueTimeMillis(100);
        return level == null ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
    }

    private static Integer refusal(JSONObject asked, MessageExt message) {
        JSONObject refused = asked.getJSONObject("refuse");
        boolean isMeant = asked.getBooleanValue("refuse_always") || message.getReconsumeTimes() == 0;
        return refused != null && isMeant ? refused.getInteger(message.getKeys()) : null;
    }

    private static void pause(JSONObject asked) {
        try {
            Thread.sleep(asked.getIntValue("pause_ms"));
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    private static void tell(JSONObject asked, MessageExt message, boolean refused) {
        Actor.tell(describe(message)
                .fluentPut("event", "consumed")
                .fluentPut("consumer", asked.getString("consumer"))
                .fluentPut("refused", refused));
    }

    static JSONObject describe(MessageQueue queue) {
        return new JSONObject(true).fluentPut("broker", queue.getBrokerName()).fluentPut("queue", queue.getQueueId());
    }

    static JSONObject describe(MessageExt message) {
        return new JSONObject(true)
                .fluentPut("topic", message.getTopic())
                .fluentPut("body", new String(message.getBody(), java.nio.charset.StandardCharsets.UTF_8))
                .fluentPut("tags", message.getTags())
                .fluentPut("keys", message.getKeys())
                .fluentPut("properties", message.getProperties())
                .fluentPut("unique_id", message.getMsgId())
                .fluentPut("offset_id", ((MessageClientExt) message).getOffsetMsgId())
                .fluentPut("broker", message.getBrokerName())
                .fluentPut("queue", message.getQueueId())
                .fluentPut("offset", message.getQueueOffset())
                .fluentPut("reconsume_times", message.getReconsumeTimes())
                .fluentPut("stored_ms", message.getStoreTimestamp())
                .fluentPut("told_ms", System.currentTimeMillis());
    }
}

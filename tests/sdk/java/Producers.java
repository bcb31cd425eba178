import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;

/** All forms of sending; each returns results of the same form. */
final class Producers {
    private static final int TIMEOUT_MS = 10_000;

    private interface Way {
        List<SendResult> send(DefaultMQProducer producer, JSONArray messages) throws Exception;
    }

    private static final Map<String, Way> WAYS =
            Map.of(
                    "sync", Producers::sync,
                    "async", Producers::async,
                    "one-way", Producers::oneWay,
                    "batch", Producers::batch,
                    "sharded", Producers::sharded);

    private final String namesrv;
    private final Map<String, DefaultMQProducer> started = new ConcurrentHashMap<>();
    private final Transactions transactions = new Transactions();

    Producers(String namesrv) {
        this.namesrv = namesrv;
    }

    void enrol(Map<String, Actor.Deed> deeds) {
        deeds.put("start producer", this::start);
        deeds.put("send", this::send);
        deeds.put("stop producer", this::stop);
        transactions.enrol(deeds, this);
    }

    private Object start(JSONObject asked) throws Exception {
        boolean traces = asked.getBooleanValue("trace");
        DefaultMQProducer producer = asked.containsKey("checks")
                ? transactions.producer(asked)
                : new DefaultMQProducer(asked.getString("group"), null, traces, null);
        producer.setNamesrvAddr((String) asked.getOrDefault("namesrv", namesrv));
        producer.setInstanceName(asked.getString("producer") + "-" + System.nanoTime());
        if (asked.containsKey("heartbeat_ms")) {
            producer.setHeartbeatBrokerInterval(asked.getIntValue("heartbeat_ms"));
        }
        if (asked.containsKey("poll_ms")) {
            producer.setPollNameServerInterval(asked.getIntValue("poll_ms"));
        }
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.start();
        started.put(asked.getString("producer"), producer);
        return producer.buildMQClientId();
    }

    /** The started producer that a command names. */
    DefaultMQProducer named(JSONObject asked) {
        return started.get(asked.getString("producer"));
    }

    private Object stop(JSONObject asked) {
        started.remove(asked.getString("producer")).shutdown();
        return true;
    }

    private Object send(JSONObject asked) throws Exception {
        DefaultMQProducer producer = named(asked);
        JSONArray answers = new JSONArray();
        for (SendResult result : WAYS.get(asked.getString("way")).send(producer, asked.getJSONArray("messages"))) {
            answers.add(describe(result));
        }
        return answers;
    }

    private static List<SendResult> sync(DefaultMQProducer producer, JSONArray messages) throws Exception {
        List<SendResult> results = new ArrayList<>();
        for (Message message : read(messages)) {
            results.add(producer.send(message));
        }
        return results;
    }

    /** Sends all at once; throws the first failure. */
    private static List<SendResult> async(DefaultMQProducer producer, JSONArray messages) throws Exception {
        List<CompletableFuture<SendResult>> promised = new ArrayList<>();
        for (Message message : read(messages)) {
            CompletableFuture<SendResult> promise = new CompletableFuture<>();
            promised.add(promise);
            producer.send(message, keeping(promise));
        }
        List<SendResult> results = new ArrayList<>();
        for (CompletableFuture<SendResult> promise : promised) {
            results.add(promise.get());
        }
        return results;
    }

    private static List<SendResult> oneWay(DefaultMQProducer producer, JSONArray messages) throws Exception {
        for (Message message : read(messages)) {
            producer.sendOneway(message);
        }
        return List.of();
    }

    private static List<SendResult> batch(DefaultMQProducer producer, JSONArray messages) throws Exception {
        return List.of(producer.send(read(messages)));
    }

    /** Messages of one shard go to one queue, in the order given. */
    private static List<SendResult> sharded(DefaultMQProducer producer, JSONArray messages) throws Exception {
        List<SendResult> results = new ArrayList<>();
        for (int i = 0; i < messages.size(); i++) {
            JSONObject given = messages.getJSONObject(i);
            results.add(producer.send(read(given), new SelectMessageQueueByHash(), given.getString("shard")));
        }
        return results;
    }

    private static SendCallback keeping(CompletableFuture<SendResult> promise) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                promise.complete(result);
            }

            @Override
            public void onException(Throwable problem) {
                promise.completeExceptionally(problem);
            }
        };
    }

    private static List<Message> read(JSONArray given) {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < given.size(); i++) {
            messages.add(read(given.getJSONObject(i)));
        }
        return messages;
    }

    static Message read(JSONObject given) {
        byte[] body = given.getString("body").getBytes(StandardCharsets.UTF_8);
        Message message = new Message(given.getString("topic"), given.getString("tags"), given.getString("keys"), body);
        if (given.containsKey("delay_level")) {
            message.setDelayTimeLevel(given.getIntValue("delay_level"));
        }
        if (given.containsKey("properties")) {
            given.getJSONObject("properties").forEach((name, value) -> message.putUserProperty(name, value.toString()));
        }
        return message;
    }

    static JSONObject describe(SendResult result) {
        return new JSONObject(true)
                .fluentPut("status", result.getSendStatus().name())
                .fluentPut("unique_id", result.getMsgId())
                .fluentPut("offset_id", result.getOffsetMsgId())
                .fluentPut("topic", result.getMessageQueue().getTopic())
                .fluentPut("broker", result.getMessageQueue().getBrokerName())
                .fluentPut("queue", result.getMessageQueue().getQueueId())
                .fluentPut("offset", result.getQueueOffset());
    }
}

import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Producers of transactional messages, whose local transactions end as the test says.
 *
 * <p>{@code "checks": {"KEY": state}} makes a producer transactional: this is its answer when a broker asks, UNKNOW for
 * other keys. A local transaction ends with the {@code "state"} of its command, or without one when {@code "conclude"}
 * names its key.
 */
final class Transactions {
    private final Map<String, CompletableFuture<String>> conclusions = new ConcurrentHashMap<>();

    void enrol(Map<String, Actor.Deed> deeds, Producers producers) {
        deeds.put("send in transaction", asked -> send((TransactionMQProducer) producers.named(asked), asked));
        deeds.put("conclude", asked -> conclusion(asked.getString("keys")).complete(asked.getString("state")));
    }

    TransactionMQProducer producer(JSONObject asked) {
        boolean traces = asked.getBooleanValue("trace");
        TransactionMQProducer producer = new TransactionMQProducer(null, asked.getString("group"), null, traces, null);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                tell("executing", message);
                return LocalTransactionState.valueOf(state == null ? conclusion(message.getKeys()).join() : (String) state);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String state = (String) asked.getJSONObject("checks").getOrDefault(message.getKeys(), "UNKNOW");
                tell("checked", message, "state", state, "producer", asked.getString("producer"));
                return LocalTransactionState.valueOf(state);
            }
        });
        return producer;
    }

    private Object send(TransactionMQProducer producer, JSONObject asked) throws Exception {
        Message message = Producers.read(asked.getJSONObject("message"));
        TransactionSendResult result = producer.sendMessageInTransaction(message, asked.getString("state"));
        return Producers.describe(result).fluentPut("state", result.getLocalTransactionState().name());
    }

    private CompletableFuture<String> conclusion(String keys) {
        return conclusions.computeIfAbsent(keys, any -> new CompletableFuture<>());
    }

    private static void tell(String event, Message message, String... more) {
        JSONObject line = new JSONObject(true).fluentPut("event", event).fluentPut("keys", message.getKeys());
        for (int i = 0; i < more.length; i += 2) {
            line.put(more[i], more[i + 1]);
        }
        Actor.tell(line);
    }
}

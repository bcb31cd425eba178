import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests that wait for their replies, and replies to requests that any consumer of this process has consumed. */
final class Requests {
    private static final Map<String, MessageExt> CONSUMED = new ConcurrentHashMap<>();

    private final Producers producers;

    Requests(Producers producers) {
        this.producers = producers;
    }

    void enrol(Map<String, Actor.Deed> deeds) {
        deeds.put("request", this::request);
        deeds.put("reply", this::reply);
    }

    static void keep(MessageExt message) {
        if (message.getProperty(MessageConst.PROPERTY_CORRELATION_ID) != null) {
            CONSUMED.put(message.getKeys(), message);
        }
    }

    private Object request(JSONObject asked) throws Exception {
        Message message = Producers.read(asked.getJSONObject("message"));
        Message reply = producers.named(asked).request(message, asked.getLongValue("timeout_ms"));
        return new String(reply.getBody(), StandardCharsets.UTF_8);
    }

    /** Replies to the request with these {@code "keys"}. */
    private Object reply(JSONObject asked) throws Exception {
        byte[] body = asked.getString("body").getBytes(StandardCharsets.UTF_8);
        Message reply = MessageUtil.createReplyMessage(CONSUMED.get(asked.getString("keys")), body);
        return producers.named(asked).send(reply).getSendStatus().name();
    }
}

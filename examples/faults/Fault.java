// A fault of a running cluster (rmqemu up), which ends with its block: java Fault.java http://127.0.0.1:9875
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

public record Fault(String control, String id) implements AutoCloseable {
    /** Begins the fault, a JSON object as in docs/faults.md; throws with the error if it is refused. */
    public static Fault begin(String control, String json) throws Exception {
        String state = call(control, "POST", "/faults", json);
        return new Fault(control, state.replaceFirst("(?s).*?\"fault_id\":(\\d+).*", "$1"));
    }

    /** Ends the fault and undoes its change; a node that it killed is ready again. */
    @Override
    public void close() throws Exception {
        call(control, "DELETE", "/faults/" + id, "");
    }

    static String call(String control, String method, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(control + path)).method(method, BodyPublishers.ofString(body)).build();
        var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        if (response.statusCode() >= 400) throw new IllegalStateException(response.body().strip());
        return response.body().strip();
    }

    public static void main(String[] arguments) throws Exception {
        try (Fault fault = begin(arguments[0], "{\"fault\": \"kill\", \"node\": \"broker-b\", \"for\": \"1m\"}")) {
            System.out.println(call(arguments[0], "GET", "/nodes/broker-b", "").contains("\"dead\"") ? "dead" : "alive");
        }
        System.out.println(call(arguments[0], "GET", "/nodes/broker-b", "").contains("\"running\"") ? "running" : "dead");
    }
}

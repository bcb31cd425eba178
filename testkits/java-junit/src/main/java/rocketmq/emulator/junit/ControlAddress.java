package rocketmq.emulator.junit;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;

/** HTTP with JSON: each call is answered when it is done. */
final class ControlAddress {
    private static final Duration ANSWER_MAX = Duration.ofSeconds(60);

    final String url;
    private final HttpClient http =
        HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(ANSWER_MAX).build();

    ControlAddress(String url) {
        this.url = url;
    }

    JsonObject call(String method, String path, String body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
            .timeout(ANSWER_MAX)
            .method(method, body.isEmpty() ? BodyPublishers.noBody() : BodyPublishers.ofString(body))
            .build();
        try {
            HttpResponse<String> answer = http.send(request, BodyHandlers.ofString());
            JsonObject json = JsonParser.parseString(answer.body()).getAsJsonObject();
            if (answer.statusCode() / 100 != 2) {
                String reason = json.get("error").getAsString();
                throw new ControlCallFailed(method + " " + path + ": " + reason, answer.statusCode());
            }
            return json;
        } catch (IOException failed) {
            throw new UncheckedIOException(method + " " + path + ": no answer from " + url, failed);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new ControlCallFailed(method + " " + path + ": interrupted", 0);
        }
    }
}

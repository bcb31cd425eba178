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

/** HTTP with JSON: each call is answered when it is done. */
final class ControlAddress {
    final String url;
    private final HttpClient http =
        HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    ControlAddress(String url) {
        this.url = url;
    }

    JsonObject call(String method, String path, String body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
            .method(method, body.isEmpty() ? BodyPublishers.noBody() : BodyPublishers.ofString(body))
            .build();
        try {
            HttpResponse<String> answer = http.send(request, BodyHandlers.ofString());
            JsonObject json = JsonParser.parseString(answer.body()).getAsJsonObject();
            if (answer.statusCode() / 100 != 2) {
                throw new ControlCallFailed(method + " " + path + ": " + json.get("error").getAsString());
            }
            return json;
        } catch (IOException failed) {
            throw new UncheckedIOException("no answer from " + url, failed);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new ControlCallFailed(method + " " + path + ": interrupted");
        }
    }
}

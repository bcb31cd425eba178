// A fault of a running cluster (rmqemu up); Begin returns the function that ends it: go run fault.go http://127.0.0.1:9875
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// Begin begins the fault, a JSON object as in docs/faults.md; end undoes its change before it returns.
func Begin(control, fault string) (end func() error, err error) {
	var state struct{ Fault_id int }
	if err := call(control, "POST", "/faults", fault, &state); err != nil {
		return nil, err
	}
	return func() error {
		return call(control, "DELETE", fmt.Sprintf("/faults/%d", state.Fault_id), "", &struct{}{})
	}, nil
}

func call(control, method, path, body string, answer any) error {
	request, err := http.NewRequest(method, control+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		return fmt.Errorf("%s", strings.TrimSpace(string(text)))
	}
	return json.Unmarshal(text, answer)
}

func main() {
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	var node struct{ State string }
	end, err := Begin(os.Args[1], `{"fault": "kill", "node": "broker-b", "for": "1m"}`)
	must(err)
	must(call(os.Args[1], "GET", "/nodes/broker-b", "", &node))
	fmt.Println(node.State)
	must(end())
	must(call(os.Args[1], "GET", "/nodes/broker-b", "", &node))
	fmt.Println(node.State)
}

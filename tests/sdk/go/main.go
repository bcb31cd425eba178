// The official Go client, controlled by lines of JSON on standard input.
//
// The same lines as for the Java program: {"id":7,"do":"send",…} is answered by {"id":7,"result":…} or
// {"id":7,"error":"…"}; each consumed message is written as {"event":"consumed",…}. This program checks nothing; the
// tests do.
//
//	program NAMESRV
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Request is one line of standard input; each command reads the fields it knows.
type Request struct {
	ID           int               `json:"id"`
	Do           string            `json:"do"`
	Producer     string            `json:"producer"`
	Consumer     string            `json:"consumer"`
	Group        string            `json:"group"`
	Topic        string            `json:"topic"`
	Tags         string            `json:"tags"`
	Way          string            `json:"way"`
	Messages     []Outgoing        `json:"messages"`
	Refuse       map[string]int    `json:"refuse"`
	PauseMs      int               `json:"pause_ms"`
	Broadcasting bool              `json:"broadcasting"`
	Orderly      bool              `json:"orderly"`
	Topics       []string          `json:"topics"`
	Broker       string            `json:"broker"`
	Queues       int               `json:"queues"`
	Trace        bool              `json:"trace"`
	Namesrv      string            `json:"namesrv"` // instead of the program's
	SQL          string            `json:"sql"`
	Message      Outgoing          `json:"message"`
	State        string            `json:"state"`
	Checks       map[string]string `json:"checks"`
	Keys         string            `json:"keys"`
	Body         string            `json:"body"`
	TimeoutMs    int               `json:"timeout_ms"`
}

type command func(Request) (any, error)

var (
	namesrv string
	output  sync.Mutex
)

func main() {
	namesrv = os.Args[1]
	commands := map[string]command{
		"start producer":      startProducer,
		"send":                send,
		"stop producer":       stopProducer,
		"start consumer":      startConsumer,
		"assigned":            assigned,
		"stop consumer":       stopConsumer,
		"create topics":       createTopics,
		"send in transaction": sendInTransaction,
		"conclude":            conclude,
		"request":             request,
		"reply":               reply,
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var request Request
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			panic(err)
		}
		if request.Namesrv == "" {
			request.Namesrv = namesrv
		}
		go answer(commands, request)
	}
}

func answer(commands map[string]command, request Request) {
	run, known := commands[request.Do]
	if !known {
		write(map[string]any{"id": request.ID, "error": fmt.Sprintf("there is no command %q", request.Do)})
		return
	}
	result, err := run(request)
	if err != nil {
		write(map[string]any{"id": request.ID, "error": err.Error()})
		return
	}
	write(map[string]any{"id": request.ID, "result": result})
}

// write prints one line; any goroutine may call it.
func write(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

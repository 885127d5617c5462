// A drone's ground station in Go: sends numbered events, repeats them, reads a state and follows
// the actions of one drone, hanging up once in between. It prints what it saw as one JSON object.
//
//	go run . http://127.0.0.1:8080 d-1
//
// Everything in api/ is generated from the gateway's OpenAPI document.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"example.com/drones/api"
)

const attemptsMax = 20

type report struct {
	Sent    int      `json:"sent"`
	Repeats int      `json:"repeats"`
	Alt     float64  `json:"alt"`
	Battery float64  `json:"battery"`
	Mode    string   `json:"mode"`
	Before  []string `json:"before"` // ids of actions seen before it hung up
	After   []string `json:"after"`  // and of those since
}

type station struct {
	client *api.ClientWithResponses
	key    string
	source string
}

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("give the gateway's address and a drone: http://127.0.0.1:8080 d-1"))
	}
	client, err := api.NewClientWithResponses(os.Args[1])
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	seen, err := station{client, os.Args[2], "go-" + os.Args[2]}.fly(ctx)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (s station) fly(ctx context.Context) (*report, error) {
	climbing, events, err := s.flight()
	if err != nil {
		return nil, err
	}
	cursor, err := s.cursorNow(ctx)
	if err != nil {
		return nil, err
	}
	var seen report

	for _, event := range events[:climbing] { // one by one, as a device would
		if _, _, err := s.send(ctx, event); err != nil {
			return nil, err
		}
	}
	feed := follower{s: s, cursor: cursor, acted: map[string]bool{}}
	if seen.Before, err = feed.until(ctx, 3); err != nil { // then it hangs up
		return nil, err
	}
	if _, _, err := s.send(ctx, events[climbing:]...); err != nil { // many in one request
		return nil, err
	}
	receipt, repeats, err := s.send(ctx, events...) // all again: the numbers are known
	if err != nil {
		return nil, err
	}
	seen.Sent, seen.Repeats = len(events), repeats

	drone, err := s.state(ctx, receipt)
	if err != nil {
		return nil, err
	}
	seen.Alt, seen.Battery, seen.Mode = *drone.Alt, *drone.Battery, string(*drone.Mode)
	seen.After, err = feed.until(ctx, 6) // goes on where it was
	return &seen, err
}

// Ten positions on the way up, and an empty battery. From 100 m on each makes an action.
func (s station) flight() (climbing int, events []api.Event, err error) {
	for n := int64(1); n <= 10; n++ {
		var event api.Event
		position := api.EventPosition{
			Agent: api.EventPositionAgentDrone, Key: s.key, Source: &s.source, Seq: &n,
		}
		position.Data.Lat, position.Data.Lon, position.Data.Alt = 52.1, 4.3, 90+5*float64(n)
		if err := event.FromEventPosition(position); err != nil {
			return 0, nil, err
		}
		events = append(events, event)
	}
	var event api.Event
	last := int64(11)
	battery := api.EventBattery{
		Agent: api.EventBatteryAgentDrone, Key: s.key, Source: &s.source, Seq: &last,
	}
	battery.Data.Percent = 9
	if err := event.FromEventBattery(battery); err != nil {
		return 0, nil, err
	}
	return 5, append(events, event), nil
}

// send returns when the events are durable. What was refused for now, or got no answer, is sent
// again under the same numbers: the gateway takes each of them once.
func (s station) send(ctx context.Context, events ...api.Event) (string, int, error) {
	var body api.Events
	if err := body.FromEvents1(events); err != nil {
		return "", 0, err
	}
	for attempt := 1; ; attempt++ {
		answer, err := s.client.EventsWithResponse(ctx, nil, body)
		if err == nil && answer.JSON200 != nil {
			return answer.JSON200.Receipt, answer.JSON200.Repeats, nil
		}
		if err == nil {
			err = fmt.Errorf("%s: %s", answer.Status(), answer.Body)
			if !passes(answer.StatusCode()) {
				return "", 0, err
			}
		}
		if attempt == attemptsMax || ctx.Err() != nil {
			return "", 0, err
		}
		time.Sleep(pause(answer))
	}
}

func passes(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable ||
		status == http.StatusGatewayTimeout
}

func pause(answer *api.EventsResponse) time.Duration {
	if answer != nil {
		if seconds, err := strconv.Atoi(answer.HTTPResponse.Header.Get("Retry-After")); err == nil {
			return time.Duration(seconds) * time.Second
		}
	}
	return time.Second
}

// state has the events of the receipt in it.
func (s station) state(ctx context.Context, receipt string) (*api.StateDrone, error) {
	answer, err := s.client.StateWithResponse(ctx, "Drone", s.key, &api.StateParams{After: &receipt})
	if err != nil {
		return nil, err
	}
	if answer.JSON200 == nil {
		return nil, fmt.Errorf("%s: %s", answer.Status(), answer.Body)
	}
	drone, err := answer.JSON200.AsAgentDrone()
	return &drone.State, err
}

func (s station) cursorNow(ctx context.Context) (string, error) {
	now := "now"
	answer, err := s.client.ActionsWithResponse(ctx, &api.ActionsParams{After: &now})
	if err != nil {
		return "", err
	}
	if answer.JSON200 == nil {
		return "", fmt.Errorf("%s: %s", answer.Status(), answer.Body)
	}
	return answer.JSON200.Cursor, nil
}

"""The server on a simulated service, from outside: its API, its times, its record, and clients that do not behave."""

import contextlib
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field

import pytest

from platform_runs import BIN, ROOT, rows, run, succeed, summary

SCENARIO = """\
model: {{config: {root}/tests/models/tiny.json, name: tiny}}
machine: {{groups: {{gpus: {{servers: 1}}}}}}
workload:
  kind: serving
  kv_blocks: 2000
  engine: vllm-0.19
  host: {{async: false, step_us: 2000, sequence_us: 20, layer_us: 0, eager_layer_us: 0, request_us: 100, token_us: 7}}
  scheduler: {{max_model_len: 4096}}
  instances: [{instances}]
"""
ALONE, PAIR = "{name: a, tp: 2}", "{name: p, role: prefill, tp: 2}, {name: d, role: decode, tp: 2}"
TOKENS = 25
TEXT = "Some words that fill a prompt with tokens. " * 12


@dataclass
class Server:
    process: subprocess.Popen
    port: int
    out: object

    def stop(self, *signals):
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body if body is None or isinstance(body, (bytes, str)) else json.dumps(body))
        answer = connection.getresponse()
        return answer, answer.read().decode()

    def complete(self, **keys):
        answer, text = self.call("POST", "/v1/completions", {"model": "tiny", "prompt": TEXT, "max_tokens": TOKENS} | keys)
        assert answer.status == 200, text
        return json.loads(text)

    def metrics(self):
        return {name: float(value) for name, value in re.findall(r"^([^#\s]\S*) (\S+)$", self.call("GET", "/metrics")[1], re.MULTILINE)}


@dataclass
class Stream:
    """A streamed answer, with the wall clock's time of each token."""

    sent: float
    headers: dict
    chunks: list = field(default_factory=list)
    came: list = field(default_factory=list)

    def tokens(self):
        return [chunk["railyard"]["token_s"] for chunk in self.chunks if "token_s" in chunk.get("railyard", {})]

    def facts(self):
        return next(chunk["railyard"] for chunk in self.chunks if "arrival_s" in chunk.get("railyard", {}))


def streamed(server, path="/v1/completions", **keys):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"model": "tiny", "prompt": TEXT, "max_tokens": TOKENS, "stream": True} | keys)
    connection.connect()
    sent = time.monotonic()
    connection.request("POST", path, body)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    stream = Stream(sent, dict(answer.getheaders()))
    while line := answer.readline().strip() or answer.readline().strip():
        assert line.startswith(b"data: "), line
        if line == b"data: [DONE]":
            break
        stream.chunks.append(json.loads(line.removeprefix(b"data: ")))
        stream.came.append(time.monotonic())
    return stream


@contextlib.contextmanager
def serving(folder, *options, instances=ALONE, pace=1):
    folder.mkdir(parents=True, exist_ok=True)
    scenario = folder / "s.yaml"
    scenario.write_text(SCENARIO.format(root=ROOT, instances=instances))
    words = [BIN / "railyard_serve", scenario, "--platform", "dgx_h100", "--listen", "127.0.0.1:0", "--pace", pace, "--quiet", *options]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        port = re.fullmatch(r"tiny on .+: http://127\.0\.0\.1:(\d+)/v1\n", line)
        assert port, line + process.stderr.read()
        yield Server(process, int(port[1]), folder / "out")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="module", name="server")
def one_server(tmp_path_factory):
    """One for all tests that leave it running."""
    with serving(tmp_path_factory.mktemp("serve"), pace=0) as server:
        yield server


def test_what_clients_ask_first(server):
    assert server.call("GET", "/health")[0].status == 200
    [card] = json.loads(server.call("GET", "/v1/models")[1])["data"]
    assert (card["id"], card["max_model_len"]) == ("tiny", 4096)
    answer, text = server.call("GET", "/v1/nothing")
    assert answer.status == 404 and json.loads(text)["error"]["type"] == "NotFoundError"


def test_a_completion_has_usage_and_simulated_times(server):
    answer = server.complete(ignore_eos=True, temperature=0.7)
    tokens = -(-len(TEXT) // 4)
    assert answer["object"] == "text_completion" and answer["choices"][0]["finish_reason"] == "length"
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (tokens, TOKENS, tokens + TOKENS)
    times = answer["railyard"]
    assert times["arrival_s"] < times["first_token_s"] < times["end_s"]
    assert times["ttft_s"] == pytest.approx(times["first_token_s"] - times["arrival_s"], abs=1e-12)
    assert server.complete()["usage"]["prompt_tokens_details"]["cached_tokens"] == tokens // 16 * 16


def test_a_stream_has_a_chunk_for_each_token(server):
    stream = streamed(server, stream_options={"include_usage": True})
    texts = [chunk["choices"][0] for chunk in stream.chunks[:-1]]
    assert len(texts) == TOKENS and all(choice["text"] for choice in texts)
    assert [choice["finish_reason"] for choice in texts] == [None] * (TOKENS - 1) + ["length"]
    assert stream.chunks[-1]["choices"] == [] and stream.chunks[-1]["usage"]["completion_tokens"] == TOKENS
    assert stream.tokens() == sorted(stream.tokens()) and stream.tokens()[-1] == stream.facts()["end_s"]
    assert float(stream.headers["X-Railyard-Arrival-S"]) == stream.facts()["arrival_s"]


def test_a_conversation_finds_its_answers_in_the_prefix_cache(server):
    messages = [{"role": "system", "content": "s" * 64 * 4}]
    for turn in range(3):
        messages.append({"role": "user", "content": "q" * 31 * 4})
        answer, text = server.call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 32})
        assert answer.status == 200, text
        answer = json.loads(text)
        prompt = 65 + 32 + 1 + 64 * turn + turn  # roles count one token each
        assert answer["usage"]["prompt_tokens"] == prompt
        # The last token of an answer is never computed, so its block is not complete.
        known = 0 if turn == 0 else (prompt - 33 - 1) // 16 * 16
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == known
        messages.append(answer["choices"][0]["message"])
    assert streamed(server, "/v1/chat/completions", messages=messages, prompt=None).chunks[0]["choices"][0]["delta"]["role"] == "assistant"


def test_errors_have_the_form_of_the_api(server):
    for body, status, words in ((b"{\"model\": \"tiny\",\n \"prompt\": }", 400, "line 2, column 12"), ({"model": "other", "prompt": "a"}, 404, "`other` does not exist"),
                                ({"prompt": "a", "max_tokens": 4096}, 400, "maximum context length is 4096 tokens"),
                                ({"prompt": "a" * 20000}, 400, "has 5000 input tokens"), (b"[" * 10000, 400, "nested"), (b" " * 300_000, 413, "too large"),
                                ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens: expected an integer"), (b"", 400, "JSON")):
        answer, text = server.call("POST", "/v1/completions", body)
        error = json.loads(text)["error"]
        assert (answer.status, error["code"]) == (status, status) and words in error["message"], text


def test_metrics_have_the_names_of_vllm(server):
    before = server.metrics()
    server.complete()
    after = server.metrics()
    model = '{model_name="tiny"}'
    for name, more in (("vllm:generation_tokens_total", TOKENS), ("vllm:prompt_tokens_total", -(-len(TEXT) // 4)), ("vllm:time_to_first_token_seconds_count", 1),
                       ("vllm:inter_token_latency_seconds_count", TOKENS - 1), ("vllm:e2e_request_latency_seconds_count", 1)):
        assert after[name + model] - before[name + model] == more, name
    assert after['vllm:num_requests_running{engine="0",model_name="tiny"}'] == 0
    assert after["railyard:behind_seconds"] == 0


def raw(server, text, half_close=False):
    """What the server answers to these bytes until it closes, or two seconds have passed."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=2) as client:
        answer = b""
        with contextlib.suppress(OSError):
            client.sendall(text)
            if half_close:
                client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65536):
                answer += piece
        return answer


def posted(body, path="/v1/completions", more=""):
    return f"POST {path} HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def test_half_closed_and_pipelined_requests_are_answered(server):
    body = json.dumps({"prompt": "abcd", "max_tokens": 3})
    stream = json.dumps({"prompt": "abcd", "max_tokens": 3, "stream": True})
    assert raw(server, posted(body), half_close=True).count(b"HTTP/1.1 200") == 1
    assert b"[DONE]" in raw(server, posted(stream), half_close=True)
    assert raw(server, posted(body) * 3 + posted("{", more="Connection: close\r\n")).count(b"HTTP/1.1 200") == 3


def test_a_request_without_a_length_has_no_body(server):
    """It is answered at once, not when the client gives up."""
    assert b"HTTP/1.1 400" in raw(server, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert b"HTTP/1.1 404" in raw(server, b"PUT /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


def test_slow_and_idle_clients_harm_nobody(server):
    """Nothing, heads that never end, bodies that never come, streams that nobody reads, clients that leave."""
    starts = [b"", b"POST /v1/completions HTTP/1.1\r\nHost: x", posted("x" * 100)[:-50], b"GET /metrics HTTP/1.1\r\nA: b\r\n"]
    unread = posted(json.dumps({"prompt": "a", "max_tokens": 300, "stream": True}))
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(400)]
    try:
        for number, client in enumerate(clients):
            client.sendall(unread if number % 40 == 0 else starts[number % 4])
        for client in clients[::80]:
            client.close()
        assert len(streamed(server).tokens()) == TOKENS
    finally:
        for client in clients:
            client.close()
    assert server.call("GET", "/health")[0].status == 200


def test_malformed_requests_end_no_server(server):
    draw = random.Random(5)
    good = posted(json.dumps({"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}))
    heads = (b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", b"Content-Length: -1\r\n\r\n", b"Content-Length: 99999999999999999999\r\n\r\n",
             b"Range: bytes=" + b"0-1," * 500 + b"\r\n\r\n", b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x", b"A: " + b"b" * 9000 + b"\r\n\r\n",
             b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n{", b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", b"X:\r\n" * 30000)

    def some(count):
        for _ in range(count):
            if draw.random() < 0.1:
                text = b"POST /v1/completions HTTP/1.1\r\n" + draw.choice(heads)
            else:
                changed = bytearray(good)
                for _ in range(draw.randrange(1, 6)):
                    at = draw.randrange(len(changed))
                    changed[at : at + draw.randrange(3)] = bytes(draw.randrange(256) for _ in range(draw.randrange(4)))
                text = bytes(changed)[: draw.choice((len(changed), draw.randrange(len(changed))))]
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client, contextlib.suppress(OSError):
                client.sendall(text)
                client.shutdown(socket.SHUT_WR)
                client.recv(100)

    threads = [threading.Thread(target=some, args=(400,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(streamed(server).tokens()) == TOKENS


def nanoseconds(seconds):
    return round(seconds * 1e9)


@pytest.mark.parametrize("instances, pace, clients", [(ALONE, 1, 64), (PAIR, 1, 16), (PAIR, 0, 16)], ids=["alone", "pair", "pair as fast as possible"])
def test_times_agree_with_the_run_and_with_a_run_of_its_record(tmp_path, instances, pace, clients):
    """Of all clients at once: the answers say what requests.csv says, and no token comes before its time."""
    with serving(tmp_path, "--out", tmp_path / "out", instances=instances, pace=pace) as server:
        streams = [None] * clients

        def client(number):
            time.sleep(0.01 * number)
            streams[number] = streamed(server, prompt=TEXT + str(number), max_tokens=10 + number)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.stop() == (0, "")
    table = {int(row["request id"]): row for row in rows(server.out / "requests.csv")}
    assert len(table) == clients
    late = []
    for stream in streams:
        facts, row = stream.facts(), table[stream.facts()["request"]]
        first = int(row["arrival"]) + int(row["TTFT"])
        gaps = [int(gap) for gap in row["ITL"].strip("[]").split(", ")]
        assert nanoseconds(facts["arrival_s"]) == int(row["arrival"]) and nanoseconds(facts["end_s"]) == int(row["end_time"])
        assert [nanoseconds(token) for token in stream.tokens()] == [first + sum(gaps[:count]) for count in range(len(gaps) + 1)]
        if pace:
            late += [wall - stream.sent - (token - facts["arrival_s"]) for wall, token in zip(stream.came, stream.tokens())]
    assert min(late, default=0) > -1e-6
    assert summary(server.out)["metrics"]["requests"] == clients
    succeed("dgx_h100", server.out / "scenario.yaml", "--quiet", "--out", tmp_path / "replay")
    assert (tmp_path / "replay" / "requests.csv").read_bytes() == (server.out / "requests.csv").read_bytes()


def leave(server, tokens, **keys):
    """A client that closes its connection after some tokens of a stream; 0: before any byte of an answer that is no stream."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": TEXT, "max_tokens": 3000, "stream": tokens > 0} | keys))
    if tokens > 0:
        answer = connection.getresponse()
        for _ in range(2 * tokens):
            answer.readline()
        answer.close()
    connection.close()


@pytest.mark.parametrize("instances, pace", [(ALONE, 1), (PAIR, 1), (PAIR, 0)], ids=["alone", "pair", "pair as fast as possible"])
def test_requests_of_clients_that_leave_are_aborted(tmp_path, instances, pace):
    aborted = 'vllm:request_success_total{finished_reason="abort",model_name="tiny"}'
    with serving(tmp_path, "--out", tmp_path / "out", instances=instances, pace=pace) as server:
        threads = [threading.Thread(target=leave, args=(server, number % 3 * 4), kwargs={"prompt": TEXT + str(number)}) for number in range(12)]
        stays = [threading.Thread(target=streamed, args=(server,), kwargs={"max_tokens": 40}) for _ in range(3)]
        for thread in threads + stays:
            thread.start()
        for thread in threads + stays:
            thread.join()
        deadline = time.monotonic() + 30
        while server.metrics()[aborted] < 12 and time.monotonic() < deadline:
            time.sleep(0.05)
        metrics = server.metrics()
        engines = {name: value for name, value in metrics.items() if "engine=" in name}
        assert metrics[aborted] == 12 and not any(engines.values()), metrics
        assert server.stop() == (0, "")
    table = rows(server.out / "requests.csv")
    assert [row["aborted"] for row in table].count("1") == 12 and len(table) == 15
    assert all(int(row["output"]) < 3000 for row in table if row["aborted"] == "1")
    found = summary(server.out)
    assert (found["metrics"]["requests"], found["metrics"]["aborted"], found["complete"]) == (3, 12, False)
    succeed("dgx_h100", server.out / "scenario.yaml", "--quiet", "--out", tmp_path / "replay")
    assert (tmp_path / "replay" / "requests.csv").read_bytes() == (server.out / "requests.csv").read_bytes()


def test_requests_under_way_end_after_sigterm(tmp_path):
    with serving(tmp_path, "--out", tmp_path / "out") as server:
        streams = []
        threads = [threading.Thread(target=lambda: streams.append(streamed(server, max_tokens=200))) for _ in range(5)]
        for thread in threads:
            thread.start()
        while server.metrics()['vllm:generation_tokens_total{model_name="tiny"}'] < 20:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        for _ in range(100):
            answer, text = server.call("POST", "/v1/completions", {"prompt": "late"})
            if answer.status == 503:
                break
        assert answer.status == 503 and "no more requests" in text and server.call("GET", "/health")[0].status == 503
        for thread in threads:
            thread.join()
        _, errors = server.process.communicate(timeout=60)
        assert (server.process.returncode, errors) == (0, "")
    assert [len(stream.tokens()) for stream in streams] == [200] * 5
    assert len(rows(server.out / "requests.csv")) >= 5 and summary(server.out)["metrics"]["requests"] >= 5


def test_a_second_signal_ends_the_run_at_once(tmp_path):
    with serving(tmp_path, "--out", tmp_path / "out") as server:
        thread = threading.Thread(target=lambda: server.call("POST", "/v1/completions", {"prompt": "a", "max_tokens": 4000}))
        thread.start()
        while server.metrics()['vllm:generation_tokens_total{model_name="tiny"}'] < 1:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        status, _ = server.stop()
        thread.join()
    assert status == 128 + signal.SIGTERM and (server.out / "summary.json").exists()


def refused(*words):
    done = run("railyard_serve", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    return done.stderr


def test_what_cannot_be_served_is_refused_in_one_line(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.format(root=ROOT, instances=ALONE))
    words = (scenario, "--platform", "dgx_h100", "--listen")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert refused(*words, listen).startswith(f"--listen {listen}: error: cannot listen there: Address already in use; ")
    assert "it is not an address of this computer" in refused(*words, "192.0.2.1:0", "--public")  # of RFC 5737: nobody has it
    assert "--public" in refused(*words, "0.0.0.0:0")
    assert "HOST:PORT" in refused(*words, "127.0.0.1")
    assert "HOST:PORT" in refused(*words, "127.0.0.1:70000")
    assert "no address" in refused(*words, "no such host:1")
    assert "out of range" in refused(*words, "127.0.0.1:0", "--pace", "-1")
    assert "error: --pcae: no such option (did you mean '--pace'?)" in refused(*words, "127.0.0.1:0", "--pcae", "1")
    assert "did you mean 'kv_blocks'" in refused(*words, "127.0.0.1:0", "--set", "workload.kv_block=3")
    assert "serves no clients" in refused(ROOT / "scenarios" / "layers" / "decode.yaml", "--platform", "dgx_h100")

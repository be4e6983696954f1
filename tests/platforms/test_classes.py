"""What fabric.classes changes in a run: how tensor-parallel writes and the KV handoff, which NICs read, share the GPUs' links."""

from platform_runs import ROOT, rows, succeed, summary

SHORT = ["workload.requests.prompt_tokens=256", "workload.decode.steps=1", "workload.nic_rule=nearest"]


class Outcome:
    def __init__(self, folder, *settings):
        options = [option for setting in (*SHORT, *settings) for option in ("--set", setting)]
        succeed("plx_box", ROOT / "scenarios/disagg_llama3_70b_plx.yaml", *options, "--out", folder, "--quiet")
        traffic = {each["class"]: each["mean_actual_s"] for each in summary(folder)["traffic"]}
        self.tp, self.kv = traffic["tp"], traffic["kv"]
        links = [link for link in rows(folder / "links.csv") if link["name"].startswith("GPU_P") and link["direction"] == "tx"]
        assert len(links) == 8
        # On the prefill GPUs' own links, where KV leaves as answers to reads.
        self.kv_waited = sum(float(link["waited_kv_s"]) for link in links)
        self.tp_waited = sum(float(link["waited_tp_s"]) for link in links)


def test_weights_and_priorities_hold_on_the_links_that_nics_read_over(tmp_path):
    alike = Outcome(tmp_path / "alike")
    tp_first = Outcome(tmp_path / "tp_first", "fabric.classes.tp.priority=1")
    kv_first = Outcome(tmp_path / "kv_first", "fabric.classes.kv.priority=1")
    kv_heavy = Outcome(tmp_path / "kv_heavy", "fabric.classes.kv.weight=8")
    # A weight moves KV only; what it does to all TP messages, most of them without KV beside them, is of the second order.
    assert tp_first.tp < min(alike.tp, kv_heavy.tp) and max(alike.tp, kv_heavy.tp) < kv_first.tp
    assert kv_first.kv_waited < kv_heavy.kv_waited < alike.kv_waited < tp_first.kv_waited / 1.5
    assert tp_first.tp_waited < alike.tp_waited < kv_first.tp_waited

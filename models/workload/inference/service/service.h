// The room `service` serves requests from arrival to the last token. The ApiServer takes them from their source and brings tokens
// to clients; a Router (room `routing`) says which instances compute a request; the Service puts it into their queues, one visit after the other;
// and a KvExchange moves KV from the instance with the prompt to the one with the answer. ServingSpec says what runs. Kinds of
// workloads own a service and listen to it (ServiceSink).
//
// Instances are numbered, those of the role `decode` last. A request visits one instance for all its parts, or one that computes the
// prompt and keeps the KV until it has been read, and another for the answer. What an instance computes of a request is a property
// of the visit; an instance's role says for which visits the router chooses it. There are two orders:
//
//   fetched   the request then waits for its turn in the second instance, takes memory there, fetches the KV and is
//             decoded, as with vLLM's NixlConnector
//   pushed    the request takes memory in the second instance first, and then enters the queue of the first one, which
//             sends KV while it computes, as with SGLang's disaggregation
//
// So the router chooses the second instance after the prompt, or with the first one; with a PromptDecider, before the first one.
//
// The client gets its first token by the engine's rule (FirstToken): vLLM throws the token of the first instance away, and
// the second one computes it again; SGLang and TensorRT-LLM bring it from the second instance when the KV is there.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/study/fidelity_choice.h"
#include "workload/engine_listener.h"
#include "workload/inference/engine/instance.h"
#include "workload/inference/routing/router.h"
#include "workload/inference/service/api_server.h"
#include "workload/inference/service/kv_exchange.h"
#include "workload/inference/service/serving_spec.h"
#include "workload/inference/service/weight_loads.h"
#include "workload/phase_listener.h"

namespace railyard::workload::inference {

class ServiceSink : public RequestSink {
 public:
  void on_served(std::uint32_t, const Stay&) override {}
  /// The KV of a request has come to the instance with the answer.
  virtual void on_kv_moved(const KvMoved&) {}
  /// The router has chosen an instance for a request (RequestPart::prompt), for its answer, or for all of it after the choice for the
  /// answer.
  virtual void on_routed(std::uint32_t /*request*/, RequestPart, const Candidates&, const Router::Choice&,
                         Time /*now*/) {}
  /// @param instance  its id: its place in ServingSpec::instances
  virtual void on_iteration(std::size_t /*instance*/, std::uint32_t /*number*/, const Iteration&, Time /*completed*/) {}

 protected:
  ~ServiceSink() = default;
};

class Service final : private ApiServerClient,
                      private InstanceClient,
                      private KvExchangeClient,
                      private WeightLoadsClient,
                      private transport::CalendarClient {
 public:
  /// An instance of the spec on the machine.
  struct Placed {
    std::vector<gpu::Gpu*> gpus;              ///< of its ranks
    std::uint32_t blocks = 0;                 ///< of its paged KV cache, including the reserved block
    std::vector<std::uint32_t> servers;       ///< of each rank, by number
    std::vector<transport::Window> memories;  ///< of each rank's socket
    std::vector<std::uint32_t> queue_pairs;   ///< of each rank: HostKv
    /// Of each attention replica: for copies of its KV, in its pool of host memory and on its disks.
    std::vector<std::uint64_t> host_blocks, disk_blocks;
  };
  /// @param placed  one for each instance of the spec
  Service(const transformer::ModelShape& model, const ServingSpec& spec, const std::vector<Placed>& placed,
          Executor& executor);

  /// Estimate of the traffic on the fabric: collectives, activations, and the handoff.
  std::vector<transport::Traffic> traffic();
  /// There can be several sinks. Call before the simulation starts.
  void add_sink(ServiceSink& sink);
  /// Phases of requests, and memory that is not paged and that instances promise to them.
  void follow_requests(RequestListener& listener);
  /// Load of the engines with paged KV cache.
  void follow_engines(EngineListener& listener) { engine_listeners_.push_back(&listener); }
  /// The two phases: time in which at least one request is in its first instance and has no token, and time in which at
  /// least one request is between the begin of its first decode step and its last token.
  void follow_phases(PhaseListener& listener) { phases_ = &listener; }
  /// Schedules the first arrival. Call once, before the simulation starts.
  void start();

  /// Requests: what clients have sent and received. A request that its instances can never hold is refused.
  const ApiServer& api_server() const { return api_server_; }
  /// See ApiServer.
  void requests_came() { api_server_.requests_came(); }
  void leaves_at(std::uint32_t request, Time when) { api_server_.leaves_at(request, when); }
  std::size_t instances() const { return instances_.size(); }
  Instance& instance(std::size_t id) { return *instances_[id]; }
  const HandoffPlan& handoff_plan(std::size_t from, std::size_t to) {
    return exchange_.plan(*instances_[from], *instances_[to]);
  }
  /// Duration of the first phase.
  Time prefill_window() const { return window_; }
  /// Changes of instances that are still to come.
  std::size_t changes_left() const { return spec_.changes.size() - changed_; }
  /// Events on the calendar that change nothing once all requests are done: of instances, of clients that leave, of leases.
  std::size_t events_left() const { return changes_left() + api_server_.leaves_left() + leases_.size(); }
  /// Of KV, that host memory holds; of all instances.
  std::uint64_t host_blocks() const;
  /// Of weights, over all instances that have joined.
  Bytes loaded_weights() const { return weights_ ? weights_->loaded() : 0; }
  /// Requests that wait, for a stall report.
  std::vector<std::string> blocked() const;

 private:
  std::vector<Router::Member> router_members(const std::vector<Placed>& placed) const;
  std::vector<std::unique_ptr<Instance>> make_instances(const transformer::ModelShape& model,
                                                        const std::vector<Placed>& placed);
  /// Host memory for copies of KV, and which stores may read each other's. @pre there is some
  void add_stores(const std::vector<Placed>& placed);
  /// Of an instance. @param first  number of the store of its replica 0
  HostKv host_kv(const Placed& placed, std::uint32_t first);
  std::size_t count_of(InstanceRole role) const;
  /// Instances at which requests may begin; these have the first ids.
  std::vector<Host> hosts() const;
  std::uint32_t entrances() const;
  Time now() const { return fabric_.now(); }
  Instance& at(const Visit& visit) { return *instances_[visit.instance]; }
  /// The visit of a request to one of its instances.
  static Visit& visit_of(Stay& stay, const Instance& instance) {
    return stay.visits.back().instance == instance.id() ? stay.visits.back() : stay.visits.front();
  }
  RequestPart part_of(std::uint32_t request, const Instance& instance) {
    return visit_of(api_server_.on_way(request), instance).part;
  }
  /// The part of a request that an instance computes which the router has chosen for its prompt.
  static RequestPart entry_part(const Instance& instance) {
    return instance.role() == InstanceRole::prefill ? RequestPart::prompt : RequestPart::all;
  }
  static bool is_handed_over(const Stay& stay) { return stay.visits.size() > 1; }
  /// Tokens of all requests that an instance of this role computes, for the estimate of traffic.
  double expected_tokens(InstanceRole role) const;
  /// What a rank of an attention replica (the third argument) sends to one to whose instance it hands over prompts.
  void for_each_share(
      const std::function<void(const KvEnd&, const KvEnd&, std::uint32_t, const HandoffPlan::Share&)>& what);
  /// Bytes of the handoff between two ranks, over all requests.
  double handed_over(const KvEnd& from, const KvEnd& to, const HandoffPlan::Share& share);
  /// Whether another instance computes the answer of a request, by the engine's rule.
  bool needs_answer(const Request& request) const;
  /// Whether the second instance computes tokens of it.
  bool decodes(const Stay& stay) const;
  /// Whether the client gets the first token from the first instance.
  bool is_first_token_of_prefill(const Stay& stay) const;
  /// The request enters the queue of an instance.
  void enter(std::uint32_t request, Visit& visit, RequestContent content);
  /// The request enters the queue of its first instance.
  void admit(std::uint32_t request);
  void prefilled(Stay& stay, std::uint32_t request);
  /// The first of two instances has finished its part; the last instance has finished.
  void hand_over(std::uint32_t request);
  void finish(std::uint32_t request);
  /// The first token is known in an instance: adds the parts of its time there.
  void close_ttft(Instance& instance, std::uint32_t request);
  static constexpr std::uint32_t kRouteTag = 0, kChangeTag = 1, kLeaseTag = 2;
  enum Phase : std::size_t { kPrefill, kDecode };
  /// The request is in this phase now, or not any more.
  void count(Stay& stay, Phase phase, bool is_in);

  // Changes of instances.
  enum class Presence : std::uint8_t { here, drained, failed, not_yet, loading };
  void prepare_changes(const std::vector<Placed>& placed);
  /// No instance joins, is drained or fails before, and no client leaves.
  Time next_change() const;
  void change(const InstanceChange& change);
  void open(std::uint32_t instance);
  void fail(std::uint32_t instance);
  /// An instance has lost the request: it goes to the router again.
  void restart(std::uint32_t request);
  /// Takes the request from its instances.
  void cancel(std::uint32_t request);
  /// KV of a prompt that has been computed, and that no instance asks for, stays until then.
  Time end_of_lease(const Visit& prompt, bool is_asked) const;
  /// Lets the instance with the prompt keep its KV for a request that will not read it.
  void keep_leased(Stay& stay, std::uint32_t request);
  /// The lease is over. If the request still waits for an instance that asks for its KV, it begins again then.
  void end_lease(std::uint64_t number);
  /// Whether an instance that has been chosen for the request is not there.
  bool is_lost(const Stay& stay) const;
  /// Instances to which no request may go, and why.
  std::string absences() const;
  void on_weights_loaded(std::uint32_t instance) override;

  /// The candidates of the router that can hold the request, and are open now.
  Candidates candidates(const Request& request, RequestPart part) const;
  /// Those at which it can begin, so that its answer has an instance, too. @param is_now  that are open
  Candidates entries(const Request& request, bool is_now) const;
  /// The same as candidates(), whether or not they are open.
  Candidates holders(const Request& request, RequestPart part) const;
  struct Choice {
    Candidates among;
    Router::Choice choice;
  };
  /// Chooses an instance for a request (RequestPart::prompt), or for its answer. @param asked  gets the part
  Choice choose(Asked& asked, RequestPart part);
  /// Time of KV between two instances. No replica is known before the request is in a queue of its instance: the mean over all.
  Time expected(const Asked& asked, std::uint32_t from, std::uint32_t to);
  /// The request, or this part, goes there. @return the instance
  std::uint32_t send(Asked& asked, const Choice& choice, RequestPart part);
  /// No request comes to the queue of an instance that takes prompts before.
  Time next_queued();
  /// The same, if no instance changes.
  Time next_sent();
  /// No batch of the instance is complete before.
  Time next_complete(Instance& instance);
  void route(std::uint32_t request);
  /// Routes those that wait in the router, as far as there is room.
  void route_held();
  /// The same at this instant, when what happens now is done.
  void route_held_soon();
  /// A request that waits in the router.
  struct Held {
    std::uint32_t request = 0;
    std::uint64_t new_tokens = 0;  ///< with wspt
    Time since{};
  };
  /// The one that is served next. @pre there is one
  std::deque<Held>::iterator next_held();
  void on_event(std::uint32_t tag, std::uint64_t data) override;
  /// The instance computes nothing more of the request.
  void ended(std::uint32_t request, std::uint32_t instance);

  bool accepts(const Request& request) const override;
  void on_at_router(std::uint32_t request) override;
  void on_queued(std::uint32_t request, RequestContent content) override;
  void on_forwarded(std::uint32_t request) override;
  void withdraw(std::uint32_t request) override;
  void on_kv_meets(std::uint32_t request) override;
  void on_kv_met(std::uint32_t request) override;
  void on_kv_posted(std::uint32_t request) override;
  void on_kv_moved(const KvMoved& moved) override;
  void on_kv_arrived(std::uint32_t request) override;
  Time next_transfer(const Instance& from, const Instance& to) override;
  Time next_kv(const Instance& from) override;
  void on_promised(Instance& instance, const Reservation& reservation) override;
  void on_composed(Instance& instance, std::uint32_t pass, const ScheduledBatch& batch) override;
  void on_attention_emitted(Instance& instance, std::uint32_t pass, std::uint32_t stage, std::uint32_t t,
                            std::uint32_t layer, JobRef job) override;
  void on_begun(Instance& instance, std::uint32_t request) override;
  void on_iteration(Instance& instance, std::uint32_t number, const Iteration& iteration) override;
  void on_token(Instance& instance, std::uint32_t request) override;
  void on_finished(Instance& instance, std::uint32_t request, const Scheduler::Counts& counts) override;
  void on_load(Instance& instance, const EngineLoad& load) override;
  void on_kv_promised(Instance& instance) override;
  Time next_added() override;

  ServingSpec spec_;
  transport::Fabric& fabric_;
  Executor& executor_;
  Router router_;
  std::map<std::uint32_t, KvDisk> disks_;  ///< by server
  std::vector<HostStore> host_stores_;     ///< by number
  KvPeers kv_peers_;
  std::vector<std::unique_ptr<Instance>> instances_;
  /// Tells the router which blocks are in an instance's prefix index, or in its host memory or on its disks.
  struct BlockReports : BlockPool::Listener {
    BlockReports(Service& of, std::uint32_t its_id, KvPlace its_place) : service(of), id(its_id), place(its_place) {}
    void on_stored(BlockPool::Content content) override {
      service.router_.view().on_stored(id, content, service.now(), place);
    }
    void on_removed(BlockPool::Content content) override {
      service.router_.view().on_removed(id, content, service.now(), place);
    }
    Service& service;
    std::uint32_t id;
    KvPlace place;
  };
  std::deque<BlockReports> block_reports_;
  std::deque<Held> held_;                    ///< requests that wait in the router, as they came
  std::vector<std::uint32_t> held_answers_;  ///< whose prompts are complete, and which no open instance takes
  KvExchange exchange_;
  /// Requests between two instances: by the id of the first one, those that are not in the queue of a second one yet; by both
  /// ids, those that wait there for memory.
  std::vector<std::uint32_t> leaving_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> waiting_;
  ApiServer api_server_;
  std::unordered_map<std::uint32_t, RequestContent>
      contents_;                                  ///< of requests that are not in the queue of their last instance
  std::uint32_t in_prefill_ = 0, in_decode_ = 0;  ///< requests
  Time window_since_, window_;
  std::vector<Presence> presences_;  ///< by instance
  std::optional<WeightLoads> weights_;
  std::size_t changed_ = 0;  ///< changes that have happened
  struct Lease {
    std::uint32_t request = 0, restarts = 0, instance = 0;
    bool is_read = true;  ///< the request may still read it
  };
  std::map<std::uint64_t, Lease> leases_;  ///< by number; those that end while no instance asks for the KV
  std::uint64_t next_lease_ = 0;
  RequestListener* listener_ = nullptr;
  PhaseListener* phases_ = nullptr;
  std::vector<ServiceSink*> sinks_;
  std::vector<EngineListener*> engine_listeners_;
};

}  // namespace railyard::workload::inference

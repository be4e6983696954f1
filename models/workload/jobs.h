// Names from models/execution that every kind of workload uses.
#pragma once

#include "execution/executor.h"

namespace railyard::workload {

using execution::Communicator;
using execution::CopyTarget;
using execution::Executor;
using execution::HostWork;
using execution::Job;
using execution::JobClient;
using execution::JobLabel;
using execution::JobNamer;
using execution::JobRecord;
using execution::JobRef;
using execution::Rank;
using execution::Recorded;

}  // namespace railyard::workload

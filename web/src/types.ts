// Generated from the Python records by scripts/generate_types.py. Do not edit.

/** A float: JSON has no NaN and no infinities, so they come as words. */
export type Num = number | "nan" | "inf" | "-inf";
/** An integer: beyond 2**53 it comes as a string of digits. */
export type Int = number | string;

/** A pair of modules, and how it was found: 'mapping', 'path', 'rule' or 'order'. */
export interface Aligned {
  a: string;
  b: string;
  how: string;
}

/** Samples of a batch, and what is odd about it. */
export interface BatchSamples {
  step: number;
  time: Num;
  shapes: string[];
  samples: Sample[];
  troubles?: string[];
  source?: Source | null;
  rank?: number;
}

/** A place where torch.compile has broken a graph. */
export interface Break {
  reason: string;
  count?: number;
  source?: Source | null;
  skipped?: string;
}

/** One call on the stack of a rank that does not get on. */
export interface Call {
  file: string;
  line: number;
  function: string;
  code: string;
}

/** Calls of one kind from one line, in the located steps: synchronising calls, casts, copies, float64 operators. */
export interface Calls {
  what: string;
  calls: number;
  seconds?: Num;
  source?: Source | null;
  module?: string;
  part?: string;
  detail?: string;
}

/** A tensor against an earlier copy of itself, over the elements that are finite in both. */
export interface Change {
  count: number;
  abs_mean: Num;
  abs_max: Num;
  before_abs_mean: Num;
  moved: number;
  equal: number;
  rtol?: Num;
  atol?: Num;
}

/** Something in both profiles: seconds of a step in each. */
export interface Changed {
  what: string;
  before: Num;
  after: Num;
}

/** Python's garbage collector in the clocked steps. */
export interface Collecting {
  collections?: number;
  seconds?: Num;
  full?: number;
  longest?: Num;
  asked?: number;
  source?: Source | null;
}

/** Run `a` against run `b`. */
export interface Compared {
  a: string;
  b: string;
  found: Comparison;
}

/** Two runs or checkpoints against each other: `first_divergence` is where to look. */
export interface Comparison {
  verdict: string;
  preflight: Difference[];
  loss: LossVerdict;
  first_divergence: Divergence | null;
  faults: Divergence[];
  rows: Record<string, unknown>[];
  reason: string;
  steps: number;
  losses: LossPair[];
  resumed: Restored[];
  aligned: Aligned[];
}

/** What compiling took: it is no part of the steps' time after the warm-up unless it happens again. */
export interface CompileTime {
  seconds?: Num;
  graphs?: number;
  breaks?: Break[];
  recompiles?: Recompile[];
}

/** What the page needs to ask for a condition and to explain it. */
export interface ConditionForm {
  code: string;
  name: string;
  title: string;
  on: string;
  applies_to: string[];
  settings: SettingForm[];
  finds: string;
  matters: string;
  causes: string[];
  advice: string[];
  one_of: string[];
}

/** Run until something pauses it again. */
export interface Continue {
  do: "continue";
}

/** What a connected training does now. Of two, the one with the greater `version` is the later. */
export interface Control {
  state: "ended" | "lost" | "paused" | "pausing" | "running" | "stopping" | "waiting";
  step: number;
  node: string | null;
  phase: string;
  reason: string;
  client: string;
  device: string;
  ranks: RankRow[];
  version: number;
}

/** What was found and how much of it is watched. */
export interface Coverage {
  models?: string[];
  optimizers?: string[];
  losses?: string[];
  loaders?: string[];
  scalers?: string[];
  schedulers?: string[];
  tensors?: number;
  watched?: number;
  gaps?: Gap[];
}

/** One thing that is not the same in both. */
export interface Difference {
  what: string;
  a: unknown;
  b: unknown;
}

/** A place where two runs part: `error` against `floor`, which rounding alone explains. */
export interface Divergence {
  module: string;
  module_b: string;
  op: string | null;
  step: number;
  phase: string;
  error: Num;
  floor: Num;
  likely_cause: string;
  file: string | null;
  line: number | null;
  tensor: string;
  aligned_by: string;
  rank: number | null;
}

/** One measured fact. */
export interface Evidence {
  what: string;
  value: Num | Int | string | boolean | null;
  step: number | null;
}

/** A cause: what, where, since when, why, and what to do. `then` lists what it spoilt afterwards. */
export interface Finding {
  fault: string;
  category: string;
  title: string;
  confidence: Num;
  since_step: number;
  where: Where;
  why: string;
  evidence?: Evidence[];
  fix?: string[];
  then?: string[];
  since?: string;
  confirm?: string[];
  rank?: number;
  replay?: string;
  muted?: boolean;
}

/** Something that is not watched. */
export interface Gap {
  what: string;
  reason: string;
  remedy?: string;
}

/** A box to draw: a module, a range of several, or a node. */
export interface GraphBox {
  key: string;
  label: string;
  kind: "buffer" | "input" | "module" | "network" | "operator" | "parameter" | "range" | "region" | "state";
  view: "backward" | "forward" | "update";
  network: string;
  path: string;
  type: string;
  operators: number;
  members: number;
  repeated: boolean;
  outputs: string[];
  hits: number;
  codes: string[];
  value: Num | null;
  hops: number;
}

/** What a search has found. */
export interface GraphFound {
  total: number;
  boxes: GraphBox[];
}

/** The inside of a box, or a neighbourhood. */
export interface GraphGroup {
  key: string;
  view: "backward" | "forward" | "update";
  boxes: GraphBox[];
  links: GraphLink[];
  cut: boolean;
}

/** An arrow between two boxes, by their places in the list. */
export interface GraphLink {
  source: number;
  target: number;
  count: number;
  label: string;
}

/** A node: what it reads, who reads it, its partner in the other pass, and its stack. */
export interface GraphNodePage {
  box: GraphBox;
  phase: string;
  inputs: GraphBox[];
  readers: GraphBox[];
  forward: GraphBox | null;
  backward: GraphBox[];
  stack: StackRow[];
}

/** A graph in the list. */
export interface GraphRow {
  name: string;
  step: number;
  rank: number;
  nodes: number;
  operators: Record<string, number>;
  networks: string[];
  left_out: number;
  note: string;
}

/** Where something stands: what must be opened until it is seen. */
export interface GraphWhere {
  view: "backward" | "forward" | "update";
  key: string;
  open: string[];
}

/** A watchpoint's condition that held, or could not be judged (`error`, then it is no hit but is listed). */
export interface Hit {
  step: number;
  watchpoint: number;
  name: string;
  condition: string;
  kind: "activation" | "buffer" | "frozen" | "gradient" | "input" | "input_gradient" | "loss" | "module_input" | "operator" | "operator_gradient" | "output" | "output_gradient" | "prediction" | "target" | "weight";
  node: string;
  slot: string;
  tensor: number;
  order?: number;
  rank?: number;
  network?: string;
  actual?: Record<string, Num>;
  threshold?: Record<string, Num>;
  error?: "dtype" | "failed" | "inf" | "nan" | "no_prev" | "no_value" | "out_of_memory" | "shape" | null;
  note?: string;
  op?: string;
  source?: Source | null;
  recommended?: boolean;
  call?: number;
}

/** Some of the hits, in order of execution, and how many there are of each sort under the other filters. */
export interface HitPage {
  total: number;
  offset: number;
  hits: Hit[];
  conditions: Record<string, number>;
  kinds: Record<string, number>;
  watchpoints: Record<string, number>;
  networks: Record<string, number>;
  recheck: boolean;
  note: string;
}

/** A line: the text around it, and the nodes in whose stack it stands. */
export interface LineDetails {
  file: string;
  line: number;
  first: number;
  lines: string[];
  total: number;
  nodes: GraphBox[];
}

/** Some of the lines. */
export interface LinePage {
  total: number;
  offset: number;
  lines: LineRow[];
}

/** A source line that made operators. */
export interface LineRow {
  frame: number;
  file: string;
  line: number;
  function: string;
  code: string;
  operators: number;
}

/** A line of the user's code, its share of the samples, and the part of the step it was met in. */
export interface LineTime {
  source: Source;
  share: Num;
  part?: "backward" | "data" | "forward" | "rest" | "update";
  samples?: number;
}

/** Something has changed: what to ask for is up to the page. */
export interface LiveNews {
  run: string;
  sequence: number;
  structure: number;
  about: number;
  control: Control | null;
}

/** A data loader as it was met in the clocked steps. */
export interface LoaderTime {
  name: string;
  source?: Source | null;
  dataset?: string;
  dataset_source?: Source | null;
  batch_size?: number;
  workers?: number;
  pinned?: boolean;
  persistent?: boolean;
  prefetch?: number;
  iterators?: number;
  batches?: number;
  length?: number;
  waits?: Num[];
  seconds?: Num;
  cpu?: Num;
  worker_cpu?: Num;
}

/** A line of the training loop outside of all parts, with what it calls: how often it was met, and where most. */
export interface LoopLine {
  source: Source;
  samples: number;
  hottest: Source;
  hottest_samples: number;
}

/** The losses of one step; `relative` is their distance over the larger one. */
export interface LossPair {
  step: number;
  a: Num;
  b: Num;
  relative: Num;
}

/** The first step whose losses differ, and what that says: 'forward', 'backward_or_update' or 'none'. */
export interface LossVerdict {
  first_step_differs: number | null;
  verdict: string;
  a: Num | null;
  b: Num | null;
}

/** What a selector selects. */
export interface Matching {
  count: number;
  names: string[];
}

/** Tensors' memory over one traced step, counted from its start, and who held the peak. */
export interface MemoryUse {
  seconds?: Num[];
  bytes?: number[];
  peak?: number;
  owners?: Owner[];
}

/** A module by its path; wrappers of DDP, FSDP and compile are stripped. */
export interface Module {
  path: string;
  type: string;
  activation?: boolean;
  source?: Source | null;
  settings?: Record<string, boolean | Int | Num | string | null>;
}

/** A module: seconds of the located steps inside it, forward and backward, with and without those inside. */
export interface ModuleTime {
  path: string;
  type?: string;
  calls?: number;
  forward?: Num;
  own_forward?: Num;
  backward?: Num;
  own_backward?: Num;
}

/** A model in brief. */
export interface NetworkRow {
  name: string;
  type: string;
  modules: number;
  parameters: number;
  trainable: number;
}

/** Run until the next module has returned, or its gradient has come. */
export interface NextNode {
  do: "next_node";
}

/** A module: what went in, what came out, what it holds. */
export interface NodeDetails {
  network: string;
  path: string;
  step: number;
  module: Module | null;
  parameters: Parameter[];
  tensors: TensorRow[];
}

/** A module in the tree. */
export interface NodeRow {
  network: string;
  path: string;
  type: string;
  kinds: ("activation" | "buffer" | "frozen" | "gradient" | "input" | "input_gradient" | "loss" | "module_input" | "operator" | "operator_gradient" | "output" | "output_gradient" | "prediction" | "target" | "weight")[];
  parameters: number;
  hits: number;
  ranks: number[];
  rank_hits: Record<string, number>;
}

/** One call of `tensight.print`; numbers of a rank grow. */
export interface NumberedPrint {
  number: number;
  print: Print;
}

/** Samples of one batch. */
export interface NumberedSamples {
  number: number;
  batch: BatchSamples;
}

/** Statistics of one tensor at one moment. `order` counts inside the step, in order of execution. */
export interface Observation {
  tensor: number;
  order: number;
  stats: Stats;
  phase?: "backward" | "evaluation" | "forward" | "update";
  micro?: number;
  shape?: number[] | null;
  error?: string | null;
}

/** One operator with one set of shapes and dtypes, summed over the traced steps. */
export interface OperatorTime {
  name: string;
  shapes?: string;
  dtypes?: string;
  calls?: number;
  seconds?: Num;
  total?: Num;
  flops?: number;
  bytes?: number;
}

/** What held memory at the peak. */
export interface Owner {
  what: string;
  bytes: number;
  tensors?: number;
  module?: string;
}

/** A parameter or buffer. `role` is 'weight', 'bias', 'norm_scale', 'norm_shift', 'embedding' or 'buffer'. */
export interface Parameter {
  name: string;
  shape: number[];
  dtype: string;
  trainable?: boolean;
  buffer?: boolean;
  role?: string;
  module?: string;
  tied_to?: string;
  optimizer?: string;
  registered?: boolean;
}

/** An optimizer, loader, loss, scaler or scheduler that was found. Sent again when it has changed. */
export interface Part {
  kind: string;
  name: string;
  type: string;
  settings?: Record<string, boolean | Int | Num | string | null>;
  source?: Source | null;
  parameters?: string[];
  unknown_parameters?: number;
}

/** Pause when the step that runs now has ended, or not before step `after` has ended. */
export interface Pause {
  do: "pause";
  after: number;
}

/** One call of `tensight.print`. */
export interface Print {
  step: number;
  time: Num;
  values: PrintedValue[];
  source?: Source | null;
  rank?: number;
  where?: string;
}

/** A line that the script printed; `stream` '' is a word of Tensight's own. */
export interface PrintLine {
  step: number;
  time: Num;
  stream: string;
  text: string;
}

/** One value of a print: a text, or a tensor with its shape, dtype and a few statistics. */
export interface PrintedValue {
  text: string;
  shape?: number[] | null;
  dtype?: string;
  min?: Num | null;
  max?: Num | null;
  mean?: Num | null;
  nan?: number;
  inf?: number;
}

/** One rank's profile. Operators, memory and spans are of the traced steps, the split of the clocked ones. */
export interface Profile {
  framework?: string;
  version?: string;
  command?: string[];
  device?: string;
  rank?: number;
  ranks?: number;
  steps?: StepTime[];
  operators?: OperatorTime[];
  lines?: LineTime[];
  loop?: LoopLine[];
  modules?: ModuleTime[];
  syncs?: Calls[];
  casts?: Calls[];
  copies?: Calls[];
  doubles?: Calls[];
  loaders?: LoaderTime[];
  compiling?: CompileTime;
  collecting?: Collecting;
  memory?: MemoryUse;
  spans?: Span[];
  held?: Calls[];
  facts?: Record<string, Num | Int | string | boolean | null>;
  tried?: Tried[];
  notes?: string[];
}

/** Where a rank is. `state` is what it does, how it ended, or 'gone' when its process is there no more. */
export interface RankPlace {
  rank: number;
  state: string;
  step: number;
  host: string;
  process: number;
  seconds: Num;
  operation: string;
  place: string;
  code: string;
  stack: Call[];
}

/** One rank of a connected training. */
export interface RankRow {
  rank: number;
  state: "ended" | "lost" | "paused" | "pausing" | "running" | "stopping" | "waiting";
  step: number;
  client: string;
  device: string;
  node: string | null;
}

/** One rank's profile with the numbers a page shows first. */
export interface RankTime {
  rank: number;
  seconds: Num;
  median: Num;
  split: Record<string, Num>;
  own: Num;
  trace_cost: Num | null;
  p50: Num;
  p99: Num;
  flops: Num;
  utilisation: Num | null;
  processors: Num;
  delayed: Num;
  worker_use: Num | null;
  profile: Profile;
  advice: TimeAdvice[];
  trace: boolean;
}

/** A function that was compiled again. */
export interface Recompile {
  function: string;
  reason?: string;
  count?: number;
  seconds?: Num;
  source?: Source | null;
  late?: number;
  asked?: Source | null;
}

/** Every answer that is none. */
export interface Refusal {
  error: string;
}

/** A bad step that was run again under full observation. */
export interface Replay {
  step: number;
  status: "close" | "exact" | "not possible" | "not reproduced";
  strategy?: string;
  reason?: string;
  seconds?: Num;
  memory?: number;
  operator?: string;
  module?: string;
  phase?: string;
  source?: Source | null;
  inputs?: string[];
  facts?: Record<string, Num | Int | string | null>;
  then?: string[];
  tensors?: string;
}

/** One thing a resumed training must get back: `restored` is None where it cannot be told. */
export interface Restored {
  what: string;
  restored: boolean | null;
  why: string;
}

/** How a run ended. A run without it is running, or was killed. */
export interface RunEnd {
  ended: "failed" | "finished" | "killed" | "running" | "stopped";
  time: Num;
  script_exit?: number | null;
  steps?: number;
  watch_cost?: Num | null;
  lost?: string[];
  budget_note?: string;
  watch_seconds?: Num;
}

/** What was started. Written once per rank when capture begins. */
export interface RunInfo {
  id: string;
  command: string[];
  started: Num;
  framework?: string;
  framework_version?: string;
  python?: string;
  platform?: string;
  tensight?: string;
  rank?: number;
  ranks?: number;
  pid?: number;
  cwd?: string;
  level?: string;
  budget?: Num;
  resumes?: string;
  resumed_after?: number;
}

/** A run in the list. */
export interface RunRow {
  id: string;
  path: string;
  started: Num;
  framework: string;
  command: string[];
  ranks: number;
  steps: number;
  loss: Num | null;
  ended: "failed" | "finished" | "killed" | "running" | "stopped";
  state: "ended" | "lost" | "paused" | "pausing" | "running" | "stopping" | "waiting" | null;
  findings: number;
  hits: number;
  error: string;
}

/** Run until this module has returned, but not beyond the end of the next full step. */
export interface RunToNode {
  do: "run_to_node";
  node: string;
}

/** One sample of a batch, as it can be shown. `kind` is 'image', 'text', 'table' or 'values'. */
export interface Sample {
  index: number;
  kind: string;
  label?: string;
  text?: string;
  png?: string;
  columns?: string[];
  row?: Num[];
  low?: Num | null;
  high?: Num | null;
}

/** A search as it stands. */
export interface Search {
  name: string;
  command: string;
  target: string;
  goal: "maximize" | "minimize";
  parameters: string[];
  wanted: number;
  trials?: TrialRow[];
  importance?: Record<string, Num>;
  best?: number | null;
  best_command?: string;
  sampler?: string;
  pruner?: string;
  storage?: string;
  seconds?: Num;
  state?: "finished" | "running" | "stopped";
}

/** A search, and the runs of its trials as the server knows them. */
export interface SearchView {
  id: string;
  folder: string;
  search: Search;
  runs: Record<string, string>;
}

/** One statistic of one tensor over steps. */
export interface Series {
  tensor: number;
  statistic: string;
  step: number[];
  value: (Num | Int | null)[];
}

export interface SettingForm {
  name: string;
  help: string;
  range: string;
  allowed: string;
  default: Num | null;
}

/** Which part of a tensor this rank holds, in a mesh of ranks. */
export interface Shard {
  shape: number[];
  placements: string[];
  mesh: number[];
  names?: string[];
  at?: number[];
  ranks?: number[];
}

/** A finding with the key that mutes it. */
export interface ShownFinding {
  key: string;
  finding: Finding;
}

/** A line of the user's own code: file as shown to the user, line counted from 1, the text of the line. */
export interface Source {
  file: string;
  line: number;
  code?: string;
  function?: string;
}

/** A piece of the timeline, in seconds from its start; `row` is its depth, rows of a part stand together. */
export interface Span {
  name: string;
  start: Num;
  seconds: Num;
  row?: number;
  kind?: string;
}

/** A frame of a stack; `frame` is the number by which its nodes are asked for. */
export interface StackRow {
  frame: number;
  file: string;
  line: number;
  function: string;
  code: string;
  user: boolean;
}

/** Statistics of one tensor; `min` to `l2` are over its finite values, and 0 or None where there are none. */
export interface Stats {
  count: number;
  nan?: number;
  pos_inf?: number;
  neg_inf?: number;
  zero?: number;
  negative?: number;
  positive?: number;
  min?: Num | Int | null;
  max?: Num | Int | null;
  mean?: Num | null;
  abs_mean?: Num | null;
  std?: Num | null;
  l2?: Num | null;
  within?: Within[];
  change?: Change | null;
}

/** Run `count` more steps, then pause; a hit or finding pauses earlier. */
export interface Step {
  do: "step";
  count: number;
}

/** Steps of one rank, as columns; `scalars` hold None where a step has no such number. */
export interface StepColumns {
  rank: number;
  step: number[];
  time: Num[];
  seconds: Num[];
  loss: (Num | null)[];
  hits: number[];
  depth: number[];
  epoch: (number | null)[];
  scalars: Record<string, (Num | null)[]>;
}

/** Steps after a sequence number. */
export interface StepNews {
  sequence: number;
  ranks: StepColumns[];
}

/** One step in seconds. `own` is what measuring took; it is in none of the parts. */
export interface StepTime {
  step: number;
  window: "clock" | "locate" | "trace" | "warm";
  seconds: Num;
  data?: Num;
  forward?: Num;
  backward?: Num;
  update?: Num;
  rest?: Num;
  own?: Num;
  cpu?: Num;
  data_cpu?: Num;
  delay?: Num;
  data_delay?: Num;
  forward_delay?: Num;
  backward_delay?: Num;
  update_delay?: Num;
  rest_delay?: Num;
  process_cpu?: Num;
  collecting?: Num;
  collections?: number;
  memory?: number;
  batches?: number;
  iterators?: number;
  backward_operators?: number;
  batch?: number;
}

/** Everything about a run but its steps, hits and nodes. */
export interface Summary {
  row: RunRow;
  info: RunInfo;
  end: RunEnd | null;
  control: Control | null;
  findings: ShownFinding[];
  watchpoints: Watchpoint[];
  networks: NetworkRow[];
  parts: Part[];
  coverage: Coverage | null;
  replays: Replay[];
  crash: string;
  devices: string[];
  sequence: number;
  structure: number;
  lost: string[];
}

/** Which tensor is meant: said once, and referred to by `id` in every observation. */
export interface TensorInfo {
  id: number;
  kind: "activation" | "buffer" | "frozen" | "gradient" | "input" | "input_gradient" | "loss" | "module_input" | "operator" | "operator_gradient" | "output" | "output_gradient" | "prediction" | "target" | "weight";
  node: string;
  slot: string;
  network?: string;
  call?: number;
  shape?: number[];
  dtype?: string;
  device?: string;
  type?: string;
  op?: string;
  phase?: "backward" | "evaluation" | "forward" | "update";
  source?: Source | null;
  forward?: number | null;
  shard?: Shard | null;
}

/** A tensor: what was seen of it at a step and before, where its values were kept, and what was hit. */
export interface TensorPage {
  info: TensorInfo;
  name: string;
  rank: number;
  step: number;
  seen: Observation | null;
  seen_step: number;
  before: Observation | null;
  before_step: number;
  kept: number[];
  hits: Hit[];
  ranks: number[];
  images: number;
}

/** A tensor with what was seen of it at a step. */
export interface TensorRow {
  info: TensorInfo;
  name: string;
  seen: Observation | null;
  step: number;
  hits: string[];
  kept: boolean;
}

/** Values of a slice: a page of them as rows and columns, their statistics, or those of a difference. */
export interface TensorValues {
  slice: string;
  shape: number[];
  dtype: string;
  stats: Stats;
  histogram: ValueHistogram | null;
  quantiles: Record<string, Num>;
  rows: number;
  columns: number;
  row: number;
  column: number;
  cells: ((Num | Int)[])[];
  difference: ValueDifference | null;
  other: string;
}

/** End the script cleanly when the step that runs now has ended. */
export interface Terminate {
  do: "terminate";
}

/** An advice: a finding, and the share of a step that it may save. */
export interface TimeAdvice {
  finding: Finding;
  gain: Num;
}

/** What has changed from one profile to another. */
export interface TimeDifference {
  step: Changed;
  parts: Changed[];
  operators: Changed[];
  settings: [string, string, string][];
}

/** The profiles of a run: one for each rank; none when it was not profiled. */
export interface TimeView {
  ranks: RankTime[];
  others: string[];
}

/** One trial. `run` is the name of its run directory inside the search's folder. */
export interface TrialRow {
  number: number;
  state: "complete" | "failed" | "pruned" | "running" | "waiting";
  values?: Record<string, Num | Int | string | boolean>;
  value?: Num | null;
  reports?: [number, Num][];
  seconds?: Num;
  run?: string;
  reason?: string;
  started?: Num;
}

/** A change that was tried on a few steps: seconds of a step before and after. */
export interface Tried {
  change: string;
  before: Num;
  after: Num;
  note?: string;
}

/** Two tensors of the same shape, element by element. */
export interface ValueDifference {
  count: number;
  different: number;
  max_abs: Num;
  mean_abs: Num;
  first: number[] | null;
  worst: number[] | null;
}

/** How many finite values lie in each bin between `low` and `high`. */
export interface ValueHistogram {
  low: Num;
  high: Num;
  counts: number[];
}

/** A condition with its parameters, on the tensors a selector names. */
export interface Watchpoint {
  id: number;
  condition: string;
  parameters?: Record<string, Num>;
  on?: string;
  name?: string;
  recommended?: boolean;
  enabled?: boolean;
  after?: number;
  every?: number;
  at_most?: number;
  in_a_row?: number;
  action?: "" | "dump" | "log" | "pause" | "pdb";
  expression?: string;
}

/** The server itself: how it was started, and what to paste to bring a training here. */
export interface Welcome {
  version: string;
  mode: "run" | "serve" | "view";
  place: string;
  run: string;
}

/** The place of a cause. `module` is '' for the root and None when no module is meant. */
export interface Where {
  module: string | null;
  op: string | null;
  parameter: string | null;
  file: string | null;
  line: number | null;
  code: string | null;
  network: string | null;
}

/** How many finite values lie inside [start, end], both ends included. */
export interface Within {
  start: Num;
  end: Num;
  count: number;
}

export type Driving = Continue | Pause | Step | NextNode | RunToNode | Terminate;

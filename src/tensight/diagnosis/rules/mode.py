"""Train and evaluation behaviour mixed up."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.modes import ActiveDropout, NetworkMode
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, called, number, plural, some, where
from tensight.records import Finding, Module

FEW = 20  # training steps before one speaks of statistics that lag
LEFT = 0.7  # share of the first values in running statistics; a step may hold several forward passes


def sensitive(case: Case, network: str) -> list[Module]:
    """Modules that behave differently in evaluation: batch norm, and dropout that drops something."""
    found = []
    for module in case.networks[network].modules:
        dropping = "Dropout" in module.type and module.settings.get("p", 0.5) not in (0, 0.0)
        if dropping or "BatchNorm" in module.type or module.type == "InstanceNorm":
            found.append(module)
    return found


class EvalModeInTraining(Rule):
    """Training goes on after the model was switched to evaluation."""

    fault = "eval_mode_in_training"
    category = "mode"
    finds = "A model trained in evaluation mode: dropout is off and batch norm uses (and keeps) old statistics."
    evidence = ("mode of the model in the forward passes that are trained on", "dropout and batch norm modules in it")
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for name, mode in case.modes.networks.items():
            if name not in case.networks or name not in case.trained() or not mode.in_eval:
                continue
            affected = sensitive(case, name)
            if not affected:
                continue
            switched = mode.trained > 0 and mode.eval_now and mode.in_eval >= 2
            always = mode.trained == 0 and mode.in_eval >= 10 and not self._meant(case, name)
            often = mode.trained > 0 and mode.in_eval >= max(5, 0.3 * mode.trained)
            if switched or always or often:
                findings.append(self._say(name, mode, affected, switched or often))
        return findings

    @staticmethod
    def _meant(case: Case, network: str) -> bool:
        """A network that is partly frozen may be kept in evaluation mode on purpose."""
        return any(not entry.parameter.trainable or not entry.held for entry in case.ledger.of(network))

    def _say(self, network: str, mode: NetworkMode, affected: list[Module], switched: bool) -> Finding:
        first = affected[0]
        since = mode.first_in_eval
        kinds = some(sorted({module.type for module in affected}))
        before = f" after {plural(mode.trained, 'step')} in training mode" if switched else ", from the start"
        after = f" after model.eval(){at(mode.eval_source)}" if switched or mode.eval_source else ""
        return self.finding(
            "the model is trained in evaluation mode",
            confidence=0.95 if switched else 0.82,
            since_step=since,
            where=where(mode.eval_source or mode.latest_eval_source, module=first.path, op="eval", network=network),
            why=f"since step {since} forward and backward run with model.training = False{before}: nobody called"
            f" model.train(){after}. {plural(len(affected), 'module')} ({kinds}) behave"
            f" differently: dropout is"
            " off and batch norm statistics stand still while training goes on",
            facts=[
                ("steps trained in evaluation mode", mode.in_eval),
                ("steps trained in training mode", mode.trained),
                ("modules this matters to", len(affected)),
            ],
            fix=("call model.train() at the start of every training epoch, after each validation",),
            confirm=("print(model.training) right before loss.backward()",),
        )


class DropoutInEval(Rule):
    """Dropout that stays random in evaluation."""

    fault = "dropout_active_in_eval"
    category = "mode"
    finds = (
        "Functional dropout, or attention with dropout_p, that does not ask for the mode: it drops in evaluation too."
    )
    evidence = ("dropout that draws random numbers inside a module in evaluation mode",)
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        return [self._say(seen, network) for (network, _), seen in case.modes.dropouts.items() if seen.count >= 1]

    def _say(self, seen: ActiveDropout, network: str) -> Finding:
        if seen.function == "dropout":
            blind = "F.dropout has training=True by default and does not know of model.eval()"
            fix = f"pass the mode: F.dropout(x, p={number(seen.p)}, training=self.training), or use nn.Dropout"
        else:
            blind = f"{seen.function} applies dropout_p in every mode and does not know of model.eval()"
            fix = f"pass dropout_p={number(seen.p)} if self.training else 0.0"
        return self.finding(
            "dropout is active in evaluation",
            confidence=0.93,
            since_step=seen.first_step,
            where=where(seen.source, module=seen.module, op=seen.function, network=network),
            why=f"dropout with p={number(seen.p)} in {called(seen.module)} drops units although the model is in"
            f" eval mode"
            f" ({plural(seen.count, 'time')}): {blind}, so evaluation results are random and worse",
            facts=[("calls of dropout in evaluation", seen.count), ("p", seen.p)],
            fix=(fix,),
            confirm=("evaluate the same batch twice: the results differ",),
        )


class BatchNormOfOne(Rule):
    """Batch norm in training with one sample per batch."""

    fault = "batchnorm_batch_of_one"
    category = "mode"
    finds = "Batch normalisation trained with a batch of one sample: its statistics are those of the sample itself."
    evidence = ("shape of batch norm outputs in training",)
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if not any("BatchNorm" in info.type for info in case.tensors.values()):
            return []
        steps = [kept for kept in case.deep() if kept.forward()]
        if len(steps) < 5:
            return []
        single: dict[tuple[str, str], int] = {}
        for kept in steps:
            for one, info in kept.forward():
                shape = one.shape or info.shape
                if "BatchNorm" not in info.type or "Sync" in info.type:
                    continue
                if not shape or shape[0] != 1 or not self._training(case, info.network):
                    return []
                single[info.network, info.node] = single.get((info.network, info.node), 0) + 1
        if not single:
            return []
        (network, node), count = next(iter(single.items()))
        return [
            self.finding(
                f"{node} normalises over a batch of one sample",
                confidence=0.85,
                since_step=steps[0].step,
                where=where(case.source_of(network, node), module=node, op="batch_norm", network=network),
                why=f"batch norm in training mode sees a batch of one sample in every step"
                f" ({plural(count, 'observed step')}): mean"
                " and variance are those of that sample, and the running statistics used in evaluation do not fit",
                facts=[("batch size", 1), ("batch norm modules", len(single))],
                fix=("use a larger batch, or GroupNorm / LayerNorm / InstanceNorm, which do not look at the batch",),
            )
        ]

    @staticmethod
    def _training(case: Case, network: str) -> bool:
        mode = case.modes.networks.get(network)
        return mode is not None and mode.trained > 0 and not mode.in_eval


class RunningStatisticsLag(Rule):
    """Batch norm whose running statistics have hardly left their first values when they are used."""

    fault = "batchnorm_running_stats_lag"
    category = "mode"
    finds = "Batch norm with so small a momentum that evaluation uses running statistics that are still mostly 0 and 1."
    evidence = ("momentum of batch norm modules", "steps in training mode", "evaluations")
    every = 0

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, mode in case.modes.networks.items():
            if name not in case.networks or not mode.switched or mode.trained < FEW or self._loaded(case, name):
                continue
            behind = [(module, left) for module in case.networks[name].modules if (left := self._left(module, mode))]
            if behind:
                yield self._say(case, name, mode, behind)

    @staticmethod
    def _loaded(case: Case, network: str) -> bool:
        """Statistics that came from elsewhere need not move far."""
        return any(event.part in (network, "") for _, event in case.noted.of("loaded"))

    @staticmethod
    def _left(module: Module, mode: NetworkMode) -> float:
        """Share of the first values in the running statistics; 0 when it is small enough."""
        momentum = module.settings.get("momentum")
        tracked = "BatchNorm" in module.type and module.settings.get("track_running_stats", True)
        if not tracked or isinstance(momentum, bool) or not isinstance(momentum, (int, float)) or not 0 <= momentum < 1:
            return 0.0
        left = float((1 - momentum) ** mode.trained)
        return left if left > LEFT else 0.0

    def _say(self, case: Case, network: str, mode: NetworkMode, behind: list[tuple[Module, float]]) -> Finding:
        module, left = behind[0]
        momentum = module.settings.get("momentum")
        small = momentum if isinstance(momentum, (int, float)) else 0.0
        return self.finding(
            "the running statistics of batch norm lag behind",
            confidence=0.88,
            since_step=0,
            where=where(
                module.source or case.source_of(network, module.path),
                module=module.path,
                op="batch_norm",
                network=network,
            ),
            why=f"{plural(len(behind), 'batch norm module')} ({some([one.path for one, _ in behind])}) have momentum"
            f" {number(small)}: after {plural(mode.trained, 'training step')} the running statistics are still"
            f" {left:.0%} their first values, mean 0 and variance 1, and eval() normalises with them. Training uses"
            " the statistics of the batch and looks fine; evaluation is far worse than it should be",
            facts=[
                ("momentum", small),
                ("steps in training mode", mode.trained),
                ("share of the first values left", left),
            ],
            fix=(
                "use momentum=0.1 (the share of the new batch here; other libraries give the share of the old value)",
            ),
            confirm=("evaluate the same batch in train() and in eval(): the results differ widely",),
        )

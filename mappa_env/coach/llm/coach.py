"""The coach that asks a language model: evidence in, a verdict out, never a number where there is none."""

from __future__ import annotations

import dataclasses
import hashlib
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from mappa_env.cards import Card
from mappa_env.coach.base import at_once
from mappa_env.coach.case import Case
from mappa_env.coach.llm import answer as answers
from mappa_env.coach.llm import cache as caches
from mappa_env.coach.llm import tracing
from mappa_env.coach.llm.answer import Answer, UnreadableError
from mappa_env.coach.llm.cache import CallCache
from mappa_env.coach.llm.criteria import BEST, CoachSpec
from mappa_env.coach.llm.fences import nonce
from mappa_env.coach.llm.models import Model
from mappa_env.coach.llm.policy import Policy, Shared
from mappa_env.coach.llm.prompt import Prompt, Prompts
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Passing, Reply, Request, Unanswered, Usage
from mappa_env.coach.rubric import infrastructure_failed
from mappa_env.errors import CoachStopped
from mappa_env.types import Asked, Attribution, Criterion, Evidence, Trajectory, Verdict, VerdictStatus

_AGAIN = (
    "Your answer to this could not be used: {}. Answer once more, with one JSON object that fills the schema."
)

Found = TypeVar("Found")


@dataclass(slots=True)
class _Spent:
    """What one verdict has cost so far. ``cache``: where its answers may come from, and are kept."""

    cache: CallCache | None
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    latency_s: float = 0.0
    waited_s: float = 0.0
    ids: tuple[str, ...] = ()
    version: str = ""


class _NoAnswerError(Exception):
    def __init__(self, status: VerdictStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class LLMCoach:
    """Safe to use from many threads. ``source``: the server that all coaches alike share, or a recording."""

    deterministic = False

    def __init__(
        self,
        name: str,
        card: Card,
        spec: CoachSpec,
        template: str,
        model: Model,
        settings: Settings,
        source: Shared | CallCache,
    ) -> None:
        self.name, self.corrects, self.labels = name, settings.corrections, settings.labels
        self._card, self._spec, self._model, self._settings = card, spec, model, settings
        self._source: Shared | CallCache | None = source  # keeps what is shared alive
        self.policy: Policy | None
        self._cache: CallCache | None
        self.policy, self._cache = (
            (None, source) if isinstance(source, CallCache) else (source.policy, source.cache)
        )
        self._prompts = Prompts(card, spec, template, corrections=settings.corrections)
        digest = hashlib.sha256(template.encode() + spec.model_dump_json().encode()).hexdigest()[:12]
        self.template = f"{card.id}/{spec.version}/{digest}"

    @property
    def identity(self) -> dict[str, Any]:
        """All that makes two runs of this coach comparable, as JSON."""
        fields = ("labels", "samples", "spread", "corrections", "max_output_tokens")
        model = {**dataclasses.asdict(self._model), "rates": None, "price": None, "retires": None}
        return {
            "name": self.name, "template": self.template, "model": model,
            "answer": {field: getattr(self._settings, field) for field in fields},
        }  # fmt: skip

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """Raises CoachStopped where the run must not go on; anything else is a verdict that says so.

        ``fresh`` answers are neither taken from the cache nor kept in it: a run replays with its first ones.
        """
        if fresh and self.policy is None:
            raise CoachStopped(f"a recording of {self.name!r} cannot be asked anew; ask the coach itself.")
        if infrastructure_failed(evidence):
            return Verdict("abstain", None, "the sandbox was unavailable: nothing to judge", coach=self.name)
        spent = _Spent(cache=None if fresh else self._cache)
        prompt = self._prompts.write(evidence, nonce(), labels=self._settings.labels)
        canonical = self._prompts.write(evidence, "", labels=self._settings.labels)
        sha = _digest(canonical)
        verdicts = []
        for sample in range(self._settings.samples):
            verdicts.append(self._sample(evidence, prompt, sha, sample, spent))
            if verdicts[-1].status in ("abstain", "error"):
                break
        verdict = self._joined(verdicts)
        scores = [each.score for each in verdicts if each.score is not None]
        spread = max(scores) - min(scores) if len(scores) > 1 else None
        return replace(verdict, asked=self._asked(spent, self.template, sha, spread))

    def judge_many(self, batch: Sequence[Evidence]) -> list[Verdict]:
        """All at once; the policy bounds how many are in flight."""
        return [future.result() for future in [self.judge_later(evidence) for evidence in batch]]

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        if not isinstance(self._source, Shared):
            return at_once(self.judge, evidence)
        return self._source.pool.submit(self.judge, evidence)

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """One call about all suspects: shares in proportion to the grades. None where there is no answer, or
        one whose quotes do not occur in what was shown, or where nobody is responsible."""
        prompt = tracing.write(trajectory, traced, nonce())
        sha = _digest(tracing.write(trajectory, traced, ""))
        read: Callable[[str], dict[int, tuple[int, str]]] = lambda text: tracing.read(text, traced.suspects)  # noqa: E731
        spent = _Spent(cache=self._cache)
        try:
            found = self._answer(prompt, sha, 0, tracing.schema(traced.suspects), read, spent)
        except _NoAnswerError:
            found = {}
        traced = replace(traced, asked=self._asked(spent, tracing.TEMPLATE, sha))
        graded = {step: quote for step, (grade, quote) in found.items() if grade}
        total = sum(grade for grade, _ in found.values())
        if not total or answers.invented(graded, prompt.quotable):
            return traced
        shares = tuple(found.get(i, (0, ""))[0] / total for i in range(len(trajectory.actions)))
        return replace(traced, shares=shares, decided="coach")

    def wait(self) -> None:
        """At most as long as a verdict may take; then the verdicts say that there are none."""
        if self.policy is not None:
            self.policy.breaker.wait(self._settings.deadline_s)

    def close(self) -> None:
        """What is shared closes, and wakes whoever waits, with the last coach that holds it."""
        self._source = None

    def _sample(self, evidence: Evidence, prompt: Prompt, sha: str, sample: int, spent: _Spent) -> Verdict:
        rows, names = self._spec.roles[evidence.agent.role], self._blamable(evidence)
        corrections = self._settings.corrections
        form = answers.schema(rows, names, corrections=corrections)
        read: Callable[[str], Answer] = lambda text: answers.read(text, rows, names, corrections=corrections)  # noqa: E731
        try:
            found = self._answer(prompt, sha, sample, form, read, spent)
        except _NoAnswerError as nothing:
            return self._none(nothing.status, str(nothing))
        return self._verdict(evidence, prompt, found)

    def _answer(
        self,
        prompt: Prompt,
        sha: str,
        sample: int,
        form: dict[str, Any],
        read: Callable[[str], Found],
        spent: _Spent,
    ) -> Found:
        """One answer, asked for once more where the first does not fill the schema."""
        complaint = ""
        for _ in range(2):
            parts = (*prompt.parts, _AGAIN.format(complaint)) if complaint else prompt.parts
            request = Request(prompt.system, parts, form, self._settings.max_output_tokens, sample)
            try:
                return read(self._reply(request, self._key(sha, sample, complaint, form), spent).text)
            except Unanswered as nothing:
                if nothing.final:
                    raise _NoAnswerError("abstain", str(nothing)) from None
                complaint = str(nothing)
            except Passing as failure:
                raise _NoAnswerError("error", str(failure)) from None
            except UnreadableError as error:
                complaint = str(error)
        raise _NoAnswerError("abstain", f"no usable answer, twice: {complaint}")

    def _reply(self, request: Request, key: str, spent: _Spent) -> Reply:
        """From the cache, else from the server. Raises Passing, Unanswered, CoachStopped."""
        reply = spent.cache.get(key) if spent.cache is not None else None
        if reply is None:
            reply = self._ask(request, key, spent)
        spent.version = reply.model_version
        spent.ids += (reply.response_id,) if reply.response_id else ()
        return reply

    def _ask(self, request: Request, key: str, spent: _Spent) -> Reply:
        if self.policy is None:
            raise CoachStopped(
                "the recording has no answer for this action: this run is not the recorded one. Check that "
                "environment, tasks, seeds and the coach's options are the same."
            )
        try:
            answer = self.policy.ask(request)
        except (Passing, Unanswered) as failure:
            spent.calls += failure.calls
            if isinstance(failure, Unanswered):
                spent.usage += failure.usage
                spent.latency_s, spent.version = failure.latency_s, failure.model_version
                spent.version = failure.model_version or spent.version
            if spent.cache is not None:
                spent.cache.put(key, failure)
            raise
        spent.calls += answer.attempts
        spent.usage += answer.reply.usage
        spent.latency_s, spent.waited_s = answer.latency_s, spent.waited_s + answer.waited_s
        if self._cache is not None and answer.reply.model_version:
            # pinned beyond this process: a resumed run must not mix two models
            self._cache.claim("model version", answer.reply.model_version)
        if spent.cache is None:
            return answer.reply
        spent.cache.put(key, answer.reply)
        return spent.cache.get(key) or answer.reply  # another thread's, where it came first

    def _key(self, sha: str, sample: int, complaint: str, form: dict[str, object]) -> str:
        return caches.key(
            model=self._model.name, template=self.template, prompt=sha, sample=sample, complaint=complaint,
            form=form, decoding={**self._model.decoding, "max_output": self._settings.max_output_tokens},
        )  # fmt: skip

    def _verdict(self, evidence: Evidence, prompt: Prompt, found: Answer) -> Verdict:
        role = evidence.agent.role
        score = self._spec.score(role, found.grades, Case(evidence, self._card.team))
        wrong = answers.invented(found.quotes, prompt.quotable)
        criteria = tuple(
            Criterion(row.name, found.grades[row.name] / BEST, row.weight, quote=found.quotes[row.name])
            for row in self._spec.roles[role].criteria
        )
        note = f" [quotes not found in the evidence: {', '.join(wrong)}]" if wrong else ""
        return Verdict(
            "suspect" if wrong else "ok", score, found.summary + note, criteria, found.blame,
            found.corrected, self.name,
        )  # fmt: skip

    def _joined(self, verdicts: Sequence[Verdict]) -> Verdict:
        """The one verdict of several samples: the worst status; the mean score, unless they disagree."""
        last = verdicts[-1]
        if len(verdicts) == 1 or last.score is None:
            return last
        scores = [verdict.score for verdict in verdicts if verdict.score is not None]
        spread = max(scores) - min(scores)
        if spread > self._settings.spread:
            return self._none("abstain", f"{len(scores)} samples disagree by {spread:.1f} points")
        worst = next((verdict for verdict in verdicts if verdict.status == "suspect"), verdicts[0])
        return replace(worst, score=round(statistics.fmean(scores), 4))

    def _none(self, status: VerdictStatus, why: str) -> Verdict:
        return Verdict(status, None, why, coach=self.name)

    def _asked(self, spent: _Spent, template: str, sha: str, spread: float | None = None) -> Asked:
        usage, price = spent.usage, self._model.price
        return Asked(
            model=self._model.name, model_version=spent.version, template=template, prompt_sha=sha,
            response_ids=spent.ids, calls=spent.calls, latency_s=spent.latency_s, waited_s=spent.waited_s,
            prompt=usage.prompt, cached=usage.cached, output=usage.output, thoughts=usage.thoughts,
            cost=None if price is None else price.of(usage), spread=spread,
        )  # fmt: skip

    def _blamable(self, evidence: Evidence) -> tuple[str, ...]:
        """The team up to the agent that acts: nobody later can have caused anything yet."""
        names = self._card.team.names
        return names[: names.index(evidence.agent.name) + 1]


def _digest(prompt: Prompt) -> str:
    """SHA-256 of all that is sent; of a prompt that was written without a nonce."""
    return hashlib.sha256("\0".join((prompt.system, *prompt.parts)).encode("utf-8", "replace")).hexdigest()

"""The coach that asks a language model: evidence in, a verdict out; a missing score is never a number."""

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
from mappa_env.coach.llm import answer as answers
from mappa_env.coach.llm import cache as caches
from mappa_env.coach.llm import tracing
from mappa_env.coach.llm.answer import Answer, UnreadableError
from mappa_env.coach.llm.cache import CallCache
from mappa_env.coach.llm.client import Client
from mappa_env.coach.llm.criteria import BEST
from mappa_env.coach.llm.fences import nonce
from mappa_env.coach.llm.models import Model
from mappa_env.coach.llm.prompt import Prompt, Prompts
from mappa_env.coach.llm.server import Server
from mappa_env.coach.llm.settings import Settings
from mappa_env.coach.llm.wire import Passing, Reply, Request, Unanswered, Usage
from mappa_env.coach.rubric.case import Case
from mappa_env.coach.rubric.coach import infrastructure_failed
from mappa_env.errors import CoachStopped
from mappa_env.types import Attribution, CallInfo, Criterion, Evidence, Trajectory, Verdict, VerdictStatus

_AGAIN = (
    "Your answer to this could not be used: {}. Answer once more, with one JSON object that fills the schema."
)

Found = TypeVar("Found")


@dataclass(slots=True)
class _Spent:
    """The cost of one verdict so far. ``cache``: read and written for its answers."""

    cache: CallCache | None
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    retries: int = 0
    latency_s: float = 0.0
    waited_s: float = 0.0
    ids: tuple[str, ...] = ()
    version: str = ""


class _NoAnswerError(Exception):
    def __init__(self, status: VerdictStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class LLMCoach:
    """Asks a language model. Thread-safe.

    ``source``: the server that coaches with the same options share, or a recording.
    """

    deterministic = False

    def __init__(
        self,
        name: str,
        card: Card,
        model: Model,
        settings: Settings,
        source: Server | CallCache,
    ) -> None:
        self.name, self.corrects, self.labels = name, settings.corrections, settings.labels
        self._card, self._model, self._settings = card, model, settings
        self._source: Server | CallCache | None = source  # keeps what is shared alive
        self.client: Client | None
        self._cache: CallCache | None
        self.client, self._cache = (
            (None, source) if isinstance(source, CallCache) else (source.client, source.cache)
        )
        self._prompts = Prompts(card, corrections=settings.corrections)
        spec = self._spec = self._prompts.spec
        digest = hashlib.sha256(
            self._prompts.template.encode() + spec.model_dump_json().encode()
        ).hexdigest()[:12]
        self.template = f"{card.id}/{spec.version}/{digest}"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that two comparable runs of this coach have in common, as JSON."""
        fields = ("labels", "samples", "spread", "corrections", "max_output_tokens")
        model = {**dataclasses.asdict(self._model), "rates": None, "price": None, "retires": None}
        return {
            "name": self.name,
            "template": self.template,
            "model": model,
            "answer": {field: getattr(self._settings, field) for field in fields},
        }

    def judge(self, evidence: Evidence, *, fresh: bool = False) -> Verdict:
        """Score one action. Raises CoachStopped if the run must end; other failures are verdicts.

        ``fresh``: bypass the cache in both directions, so a replay uses the first answers.
        """
        if fresh and self.client is None:
            raise CoachStopped(
                f"a recording of {self.name!r} cannot give fresh verdicts; use the coach itself."
            )
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
        """Judge in parallel; ``concurrency`` limits the calls in flight."""
        return [future.result() for future in [self.judge_later(evidence) for evidence in batch]]

    def judge_later(self, evidence: Evidence) -> Future[Verdict]:
        """Judge in a thread of the server; a recording judges immediately."""
        if not isinstance(self._source, Server):
            return at_once(self.judge, evidence)
        return self._source.pool.submit(self.judge, evidence)

    def blame(self, trajectory: Trajectory, traced: Attribution) -> Attribution:
        """Ask once about all suspects; their fractions are proportional to the grades.

        The result has no fractions if the answer is unusable, quotes text that was not shown, or has only
        grades of 0.
        """
        order = self._card.order
        prompt = tracing.write(trajectory, traced, order, nonce())
        sha = _digest(tracing.write(trajectory, traced, order, ""))
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
        fractions = tuple(found.get(i, (0, ""))[0] / total for i in range(len(trajectory.actions)))
        return replace(traced, fractions=fractions, decided="coach")

    def wait(self) -> None:
        """Wait for the server, at most as long as a verdict may take."""
        if self.client is not None:
            self.client.breaker.wait(self._settings.deadline_s)

    def close(self) -> None:
        """Release the source. The last coach that holds it closes it, which wakes waiting threads."""
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
        """One answer; the model is asked again if the first does not match the schema."""
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
        """The reply from the cache, else from the server. Raises Passing, Unanswered, CoachStopped."""
        reply = spent.cache.get(key) if spent.cache is not None else None
        if reply is None:
            reply = self._ask(request, key, spent)
        spent.version = reply.model_version
        spent.ids += (reply.response_id,) if reply.response_id else ()
        return reply

    def _ask(self, request: Request, key: str, spent: _Spent) -> Reply:
        if self.client is None:
            raise CoachStopped(
                "the recording has no answer for this action: this run differs from the recorded one. "
                "Use the same environment, tasks, seeds and coach options."
            )
        try:
            answer = self.client.ask(request)
        except (Passing, Unanswered) as failure:
            spent.calls += failure.calls
            spent.retries += max(failure.calls - 1, 0)  # 0 calls: the deadline came first
            if isinstance(failure, Unanswered):
                spent.usage += failure.usage
                spent.latency_s, spent.version = failure.latency_s, failure.model_version
                spent.version = failure.model_version or spent.version
            if spent.cache is not None:
                spent.cache.put(key, failure)
            raise
        spent.calls += answer.attempts
        spent.retries += answer.attempts - 1
        spent.usage += answer.reply.usage
        spent.latency_s, spent.waited_s = answer.latency_s, spent.waited_s + answer.waited_s
        if self._cache is not None and answer.reply.model_version:
            # stored in the cache, so that a resumed run does not mix two models
            self._cache.claim("model version", answer.reply.model_version)
        if spent.cache is None:
            return answer.reply
        spent.cache.put(key, answer.reply)
        return spent.cache.get(key) or answer.reply  # another thread's answer, if it came first

    def _key(self, sha: str, sample: int, complaint: str, form: dict[str, object]) -> str:
        return caches.key(
            model=self._model.name,
            template=self.template,
            prompt=sha,
            sample=sample,
            complaint=complaint,
            form=form,
            decoding={**self._model.decoding, "max_output": self._settings.max_output_tokens},
        )

    def _verdict(self, evidence: Evidence, prompt: Prompt, found: Answer) -> Verdict:
        role = evidence.agent.role
        score = self._spec.score(role, found.grades, Case(evidence, self._card.order, self._card.answerer))
        wrong = answers.invented(found.quotes, prompt.quotable)
        criteria = tuple(
            Criterion(row.name, found.grades[row.name] / BEST, row.weight, quote=found.quotes[row.name])
            for row in self._spec.roles[role].criteria
        )
        note = f" [quotes not found in the evidence: {', '.join(wrong)}]" if wrong else ""
        return Verdict(
            "suspect" if wrong else "ok",
            score,
            found.summary + note,
            criteria,
            found.blame,
            found.corrected,
            self.name,
        )

    def _joined(self, verdicts: Sequence[Verdict]) -> Verdict:
        """The verdict of several samples: the worst status; the mean score, unless they disagree."""
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

    def _asked(self, spent: _Spent, template: str, sha: str, spread: float | None = None) -> CallInfo:
        usage, price = spent.usage, self._model.price
        return CallInfo(
            model=self._model.name,
            model_version=spent.version,
            template=template,
            prompt_sha=sha,
            response_ids=spent.ids,
            calls=spent.calls,
            retries=spent.retries,
            latency_s=spent.latency_s,
            waited_s=spent.waited_s,
            prompt=usage.prompt,
            cached=usage.cached,
            output=usage.output,
            thoughts=usage.thoughts,
            cost=price.of(usage) if price is not None and usage.known else None,
            spread=spread,
        )

    def _blamable(self, evidence: Evidence) -> tuple[str, ...]:
        """Who has acted and was seen, and the acting agent: others cannot have caused anything."""
        acted = {record.agent for record in self._card.order.seen(evidence.history)}
        return tuple(name for name in self._card.team.names if name in acted | {evidence.agent.name})


def _digest(prompt: Prompt) -> str:
    """SHA-256 of the whole prompt, which must be written without a nonce."""
    return hashlib.sha256("\0".join((prompt.system, *prompt.parts)).encode("utf-8", "replace")).hexdigest()

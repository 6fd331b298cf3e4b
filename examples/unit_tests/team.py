"""A scripted team: ``scripted: "team.py:Team"`` in card.yaml."""

from typing import ClassVar

from mappa_env.scripted import Act, FaultPlan

WRITE = '```python\nopen("solution.py", "w").write("""{source}""")\n```'


class Team:
    """The coder writes the function, the reviewer corrects it if it is not the right one."""

    faults: ClassVar = {"coder": ("wrong", "crash", "no_file"), "reviewer": ("approves", "breaks")}
    faulty = FaultPlan(rates={"coder": 0.5, "reviewer": 0.3})

    def act(self, act: Act) -> str:
        right, wrong = (WRITE.format(source=act.task.truth[key]) for key in ("solution", "wrong"))
        if act.turn:
            return "solution.py is written."
        if act.role == "coder":
            no_file = right.replace('open("solution.py", "w").write', "print")
            crash = right.replace("open", "opened")
            return {"wrong": wrong, "crash": crash, "no_file": no_file}.get(act.fault or "", right)
        if act.fault == "breaks":
            return wrong
        written = any(record.action == right for record in act.history)
        return "I approve." if written or act.fault == "approves" else right

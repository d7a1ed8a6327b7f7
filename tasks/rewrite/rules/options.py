"""`build-option`: an option of the compiler, of OpenCL's allow-list; one place an option, `::/option[-cl-mad-enable]`.

Parameters: `index`, where it stands in the list; `text`, only where it is not spelled plainly; `made`, for taking out
an option whose list was made for it, so that the list goes, too.
"""

from __future__ import annotations

from experts.kernel import Kernel
from experts.source import FILE, Anchor, StepKind
from tasks.rewrite.edit import Edit, NotApplicable, Places, Scalar
from tasks.rewrite.manifest import with_option, without_option
from tasks.rewrite.rules.found import Found, anchor_of, int_param, inverse, needed, opencl, text_param

INTENTS = {
    "-cl-mad-enable": "fuse-multiply-add",
    "-cl-fast-relaxed-math": "relax-math",
    "-cl-no-signed-zeros": "relax-math",
    "-cl-denorms-are-zero": "relax-math",
}


class BuildOption:
    """See the module's docstring."""

    name = "build-option"

    def removable(self, kernel: Kernel) -> Places:
        """Every option that loosens arithmetic."""
        found = Found(self.name)
        for option in kernel.manifest.options if opencl(kernel) is not None else ():
            if option not in INTENTS:
                continue
            try:
                without_option(kernel, option)
            except NotApplicable as error:
                found.decline(INTENTS[option], _place(option), str(error))
            else:
                found.edit("remove", INTENTS[option], _place(option))
        return found.places()

    def addable(self, kernel: Kernel) -> Places:
        """Every one that is not there."""
        found, options = Found(self.name), kernel.manifest.options
        for option in INTENTS if opencl(kernel) is not None else ():
            if option in options:
                continue
            try:
                with_option(kernel, option, len(options))
            except NotApplicable as error:
                found.decline(INTENTS[option], _place(option), str(error))
            else:
                found.edit("add", INTENTS[option], _place(option), {"index": len(options)})
        return found.places()

    def apply(self, kernel: Kernel, edit: Edit) -> tuple[Kernel, Edit]:
        """See the contract."""
        needed(kernel)
        place = anchor_of(edit)
        option = place.steps[-1].label if place.steps else ""
        if option not in INTENTS:
            raise NotApplicable("this rule does not know the option")
        given = dict(edit.params)
        if edit.action == "remove":
            removed, stood = without_option(kernel, option, whole_line=given.get("made") is True)
            back: dict[str, Scalar] = {"index": stood.index}
            if stood.text is not None:
                back["text"] = stood.text
            return removed, inverse(edit, back)
        # Another option may have gone in the meantime.
        index = min(int_param(edit, "index"), len(kernel.manifest.options))
        text = text_param(edit, "text") if "text" in given else None
        added, made = with_option(kernel, option, index, text)
        return added, inverse(edit, {"made": True} if made else {})


def _place(option: str) -> Anchor:
    return Anchor(FILE).child(StepKind.OPTION, option)

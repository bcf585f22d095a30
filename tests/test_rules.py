"""The one idiom for what may apply: a class is known by being defined, and found by what it is."""

import textwrap

import pytest

from afterfit import Reader
from afterfit._base.rules import Rule, discover
from afterfit._diagnose.log import open_log, read_log
from afterfit.theory._answers import Answers


def test_a_rule_is_known_by_being_defined_and_what_lies_between_is_not():
    class Family(Rule):
        pass

    class Between(Family):
        pass

    class First(Between):
        name = "the first"

        @classmethod
        def obstacle(cls, number):
            return None if number > 0 else f"{number} is not positive"

    class Second(First):
        name = "the second"

    class Nameless(Second):
        pass

    class Other(Rule):
        pass

    assert Family.known() == (First, Second)
    assert Between.known() == (First, Second)
    assert Second.known() == (Second,)
    assert Other.known() == ()
    assert First.obstacle(1) is None
    assert First.obstacle(-1) == "-1 is not positive"


def test_a_definition_made_again_replaces_the_first():
    class Family(Rule):
        pass

    def define():
        class Mine(Family):
            name = "mine"

            @classmethod
            def obstacle(cls):
                return None

        return Mine

    first, second = define(), define()
    assert first is not second
    assert Family.known() == (second,)


def test_a_rule_that_does_not_say_what_stands_in_its_way_cannot_be_applied():
    class Family(Rule):
        pass

    class Forgetful(Family):
        name = "forgetful"

    with pytest.raises(TypeError, match="obstacle"):
        Forgetful()


def test_discover_imports_every_module_of_a_package(tmp_path, monkeypatch):
    package = tmp_path / "found_rules"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from afterfit._base.rules import Rule\n\n\nclass Found(Rule):\n    pass\n", encoding="utf-8"
    )
    for letter in "ba":
        source = f"""
            from found_rules import Found

            class Rule{letter}(Found):
                name = "{letter}"
        """
        (package / f"{letter}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    discover("found_rules")
    import found_rules

    assert [rule.name for rule in found_rules.Found.known()] == ["a", "b"]


def test_rules_of_one_name_are_told_apart_by_their_classes():
    class Family(Rule):
        @classmethod
        def obstacle(cls, instance):
            return None

    class First(Family):
        name = "the same"

    class Second(Family):
        name = "the same"

    told = Answers.of(Family.known(), None, lambda rule: rule())  # type: ignore[arg-type]
    assert (type(told[First]), type(told[Second])) == (First, Second)
    with pytest.raises(KeyError, match="several are named 'the same': ask for one of the classes First, Second"):
        told["the same"]


def test_a_format_of_ones_own_is_asked_before_csv_which_any_text_may_be(tmp_path):
    class Shouted(Reader):
        name = "shouted"

        @classmethod
        def obstacle(cls, path):
            return None if path.suffix == ".shout" else "its name does not end in .shout"

        def names(self):
            return self.path.read_text().splitlines()[0].lower().split()

        def rows(self, columns):
            yield from ((f"line {k}", [float(k)] * len(columns)) for k in (1, 2))

    log = tmp_path / "log.shout"
    log.write_text("STEP TRAIN TEST\n", encoding="utf-8")
    assert open_log(log).names() == ["step", "train", "test"]
    assert read_log(log, time="step", train="train", test="test")["train"].tolist() == [1.0, 2.0]
    (tmp_path / "log.csv").write_text("step,train\n1,2\n", encoding="utf-8")
    assert open_log(tmp_path / "log.csv").name == "CSV"

"""Pieces of HTML for pages and notebooks."""

from conftest import Cells

from afterfit._base.html import Raw, folded, table


def test_a_table_says_what_it_was_given_whatever_that_looks_like():
    odd = ["a < b & c", '<script>alert("x")</script>', "‖θ‖₂ &lt; 1"]
    page = table(("what", "else"), [(text, 1.5) for text in odd], "<i>its</i> caption")
    found = Cells(page)
    assert found.cells == [cell for text in odd for cell in (text, "1.5")]
    assert found.captions == ["<i>its</i> caption"]
    assert "<script" not in page
    assert "<b>yes</b>" in table(("",), [(Raw("<b>yes</b>"),)])
    assert "color" not in page, "colours are the reader's, light or dark"


def test_a_folded_list_is_escaped_and_an_empty_one_is_nothing():
    assert "<li>1 &lt; 2</li>" in folded("two", ["1 < 2"])
    assert folded("none", []) == ""

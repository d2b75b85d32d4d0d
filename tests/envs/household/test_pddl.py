"""Planning problems and domains: names, goals, and what cannot be played."""

import pytest

from worldline.envs.household.pddl import check_domain
from worldline.types import InputError


def test_an_unknown_domain_is_refused_comments_aside() -> None:
    check_domain("(:action look) ; (:action Fly)\n(:action GotoLocation)")
    with pytest.raises(InputError, match="fly"):
        check_domain("(:action look) (:action Fly)")

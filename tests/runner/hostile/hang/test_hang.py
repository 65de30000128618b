"""Never comes back."""


def test_before() -> None:
    pass


def test_for_ever() -> None:
    def the_loop_that_never_ends() -> None:
        while True:
            pass

    the_loop_that_never_ends()


def test_after() -> None:
    pass

"""What a comparison trains with where nothing is said."""

from heedful.studies.plan import plan_comparison

DATA = {"name": "tickets"}


def test_a_named_model_is_compared_with_its_own_settings() -> None:
    plan = plan_comparison(DATA, ["minilm", "heedful-tiny-en"], ["frozen", "full"], (0,))
    recipes = {(setting.model, setting.method): setting.recipe for setting in plan.settings}
    usual, tiny = recipes["minilm", "full"], recipes["heedful-tiny-en", "full"]
    assert (usual.training.epochs, usual.training.lr, usual.model.pooling) == (5, 1e-4, None)
    assert (tiny.training.epochs, tiny.training.lr, tiny.model.pooling) == (10, 3e-4, "mean")
    frozen = recipes["heedful-tiny-en", "frozen"].identity()
    assert {**frozen, "model": None} == {**recipes["minilm", "frozen"].identity(), "model": None}


def test_what_is_said_goes_over_a_model_s_own_settings() -> None:
    changes = {"training": {"lr": 5e-5}}
    plan = plan_comparison(
        DATA, ["heedful-tiny-en"], ["full"], (0,), changes, {"full": {"model": {"pooling": "first"}}}
    )
    (setting,) = plan.settings
    assert (setting.recipe.training.epochs, setting.recipe.training.lr) == (10, 5e-5)
    assert setting.recipe.model.pooling == "first"
    (setting,) = plan_comparison(DATA, ["heedful-tiny-en"], ["full"], (0,), {"training": {"steps": 7}}).settings
    assert {"steps", "epochs"} & setting.recipe.training.model_fields_set == {"steps"}

"""One meaning per class name, names that say what they hold, and a test file for every module."""

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "worldline"
TEST_FILES = {path.relative_to(TESTS.parent).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

OPAQUE = {"found", "known", "said", "asked", "told"}
"""Words that say nothing about what a variable holds: alone, and in src as part of a name too."""

COVERED_BY = {
    "collect_notes.py": "test_collect.py",
    "collect_settings.py": "test_collect.py",
    "config.py": "test_command_line.py",
    "recipe_file.py": "test_command_line.py",
    "adwm/imagination.py": "adwm/test_world_model_env.py",
    "adwm/fitting/weak_points.py": "adwm/test_fit.py",
    "bench/train_plans.py": "bench/test_train.py",
    "evaluate/imagination.py": "evaluate/test_world_model.py",
    "evaluate/sensitivity.py": "evaluate/test_world_model.py",
    "evaluate/imagined_cache.py": "evaluate/test_world_model.py",
    "callable_module.py": "test_api.py",
    "metrics.py": "test_run_folder.py",
    "notebook.py": "test_api.py",
    "training_state.py": "test_run_folder.py",
    "signals.py": "cli/test_signals.py",
    "adwm/ensemble.py": "adwm/test_fit.py",
    "adwm/episodes.py": "adwm/fitting/test_training.py",
    "adwm/soft_tokens/guidance.py": "adwm/soft_tokens/test_tokens.py",
    "policies/language_model/stepper.py": "policies/language_model/test_in_place.py",
    "cli/bench.py": "cli/test_main.py",
    "cli/collect.py": "test_collect.py",
    "cli/compare.py": "comparison/test_compare.py",
    "cli/env.py": "cli/test_main.py",
    "cli/env_serve.py": "envs/test_openenv.py",
    "cli/evaluate.py": "evaluate/test_evaluation.py",
    "cli/export.py": "store/test_reader.py",
    "cli/fit.py": "adwm/test_fit.py",
    "cli/import_.py": "logs/test_importer.py",
    "cli/verb_result.py": "cli/test_hostile_input.py",
    "cli/pull.py": "hub/test_transfer.py",
    "cli/push.py": "hub/test_transfer.py",
    "cli/report.py": "report/test_page.py",
    "cli/sft.py": "sft/test_sft.py",
    "cli/train.py": "paw/test_train.py",
    "cli/view.py": "report/test_server.py",
    "comparison/outcomes.py": "comparison/test_compare.py",
    "comparison/result.py": "comparison/test_compare.py",
    "comparison/table.py": "comparison/test_compare.py",
    "envs/household/belief.py": "envs/household/test_expert.py",
    "envs/household/catalogue.py": "envs/household/test_world.py",
    "envs/household/environment.py": "envs/household/test_world.py",
    "envs/household/generator.py": "envs/household/test_world.py",
    "envs/household/wording.py": "envs/household/test_expert.py",
    "envs/jsonlines.py": "envs/searchqa/test_corpus.py",
    "envs/openenv/server.py": "envs/test_openenv.py",
    "envs/openenv/service.py": "envs/test_openenv.py",
    "envs/openenv/session.py": "envs/test_openenv.py",
    "envs/openenv/wording.py": "envs/test_openenv_wording.py",
    "envs/openenv/world.py": "envs/test_openenv.py",
    "envs/scienceworld/simulator.py": "envs/scienceworld/test_world.py",
    "envs/searchqa/candidates.py": "envs/searchqa/test_world.py",
    "envs/searchqa/coverage.py": "envs/searchqa/test_real_data.py",
    "envs/searchqa/expert.py": "envs/searchqa/test_encyclopedia.py",
    "envs/searchqa/library.py": "envs/searchqa/test_real_data.py",
    "envs/searchqa/names.py": "envs/searchqa/test_encyclopedia.py",
    "envs/searchqa/passage.py": "envs/searchqa/test_retrieval.py",
    "envs/searchqa/questions.py": "envs/searchqa/test_real_data.py",
    "envs/searchqa/wording.py": "envs/searchqa/test_encyclopedia.py",
    "envs/seeded_tasks.py": "envs/test_gym.py",
    "envs/webshop/assortment.py": "envs/webshop/test_world.py",
    "envs/webshop/catalogue.py": "envs/webshop/test_engine.py",
    "envs/webshop/environment.py": "envs/webshop/test_world.py",
    "envs/webshop/generator.py": "envs/webshop/test_world.py",
    "envs/webshop/goals.py": "envs/webshop/test_files.py",
    "envs/webshop/instruction.py": "envs/webshop/test_expert.py",
    "envs/webshop/nouns.py": "envs/webshop/test_engine.py",
    "envs/webshop/pages.py": "envs/webshop/test_engine.py",
    "envs/webshop/product.py": "envs/webshop/test_files.py",
    "envs/worker_process.py": "envs/test_workers.py",
    "evaluate/advice.py": "report/test_answer.py",
    "evaluate/case_policies.py": "evaluate/test_case.py",
    "evaluate/loggers.py": "evaluate/test_case.py",
    "evaluate/result_parts.py": "evaluate/test_result.py",
    "evaluate/judgement.py": "evaluate/test_case.py",
    "evaluate/out_folder.py": "evaluate/test_evaluation.py",
    "evaluate/settings.py": "evaluate/test_evaluation.py",
    "evaluate/spread.py": "test_ray_pool.py",
    "shard.py": "test_ray_pool.py",
    "evaluate/table.py": "evaluate/test_evaluation.py",
    "hub/card.py": "hub/test_transfer.py",
    "integrations/tool_answers.py": "integrations/test_trl.py",
    "integrations/trl_environment.py": "integrations/test_trl.py",
    "kernel/compared_rows.py": "kernel/test_candidates.py",
    "kernel/list_items.py": "kernel/test_lists.py",
    "kernel/renamings.py": "kernel/test_candidates.py",
    "logs/columns.py": "logs/test_table.py",
    "logs/fields.py": "logs/test_mapping.py",
    "logs/messages.py": "logs/test_chat.py",
    "logs/rows.py": "logs/test_jsonl.py",
    "logs/source.py": "logs/test_jsonl.py",
    "ope/marginal.py": "ope/test_estimators.py",
    "ope/text.py": "evaluate/test_candidates.py",
    "paw/adapters.py": "paw/test_server.py",
    "paw/actor.py": "paw/test_update.py",
    "paw/gradient.py": "paw/test_update.py",
    "paw/model.py": "paw/test_update.py",
    "paw/run.py": "paw/test_killed_run.py",
    "paw/session.py": "paw/test_train.py",
    "policies/checked_logprobs.py": "policies/test_mixing.py",
    "policies/client.py": "policies/test_api.py",
    "policies/language_model/answering.py": "policies/language_model/test_hf.py",
    "policies/language_model/forward.py": "policies/language_model/test_architectures.py",
    "policies/language_model/scoring.py": "policies/language_model/test_hf.py",
    "policies/settings.py": "policies/language_model/test_hf.py",
    "report/blocks.py": "report/test_page.py",
    "report/episodes.py": "report/test_server.py",
    "report/log.py": "report/test_page.py",
    "report/plots.py": "report/test_page.py",
    "report/source.py": "report/test_page.py",
    "report/training.py": "report/test_page.py",
    "report/world_model.py": "report/test_page.py",
    "sft/clone.py": "sft/test_sft.py",
    "sft/demonstrations.py": "sft/test_sft.py",
    "sft/examples.py": "sft/test_sft.py",
    "sft/small.py": "sft/test_sft.py",
    "types/environment.py": "test_rollout.py",
    "types/errors.py": "cli/test_bad_input.py",
    "types/policy.py": "test_rollout.py",
}
"""The test file of each module that has no `tests/PATH/test_NAME.py` of its own."""


def test_no_class_name_is_defined_twice() -> None:
    homes = defaultdict(list)
    for name, path in MODULES.items():
        for cls in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            homes[cls].append(name)
    assert not {cls: where for cls, where in homes.items() if len(where) > 1}


def test_names_say_what_they_hold() -> None:
    opaque = {name: words for name, path in (MODULES | TEST_FILES).items() if (words := _names(path) & OPAQUE)}
    assert not opaque


def test_no_part_of_a_name_is_opaque() -> None:
    opaque = {
        module: names
        for module, path in MODULES.items()
        if (names := {name for name in _names(path) if not OPAQUE.isdisjoint(name.split("_"))})
    }
    assert not opaque


def test_a_name_is_seen_wherever_it_is_bound(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    lines = ("import os as found", "x.known = 1", "def f(*said): ...", "f(asked=1)", "class Told: ...")
    for line, name in zip(lines, sorted(OPAQUE, key=str(lines).lower().index), strict=True):
        module.write_text(line)
        assert name in _names(module), line


def _names(path: Path) -> set[str]:
    """Every variable, parameter, argument, attribute, function, class and alias of a module, in lower case."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg | ast.keyword):
            names.add(node.arg or "")
        elif isinstance(node, ast.alias):
            names.add(node.asname or "")
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
    return {name.strip("_").lower() for name in names}


def test_every_module_has_a_test_file() -> None:
    def mirrored(name: str) -> Path:
        return TESTS / Path(name).with_name(f"test_{Path(name).name}")

    bare = [
        name
        for name in MODULES
        if not name.endswith(("__init__.py", "__main__.py")) and not mirrored(name).is_file() and name not in COVERED_BY
    ]
    assert not bare, "give each a test file, or name the one that covers it in COVERED_BY"
    assert COVERED_BY.keys() <= MODULES.keys(), COVERED_BY.keys() - MODULES.keys()
    gone = {name: test for name, test in COVERED_BY.items() if not (TESTS / test).is_file()}
    assert not gone


def test_the_tree_in_the_readme_has_a_line_for_every_file_of_two_levels() -> None:
    tree = (TESTS.parent / "README.md").read_text(encoding="utf-8").split("src/worldline/\n", 1)[1].split("```", 1)[0]
    listed, package = set(), ""
    for line in tree.splitlines():
        name = line.split()[0]
        package = name if line.startswith("  ") and line[2] != " " and name.endswith("/") else package
        listed.add(package + name if line.startswith("    ") else name)
    names = {name for name in MODULES if name.count("/") < 2 and not name.endswith(("__init__.py", "__main__.py"))}
    assert {name for name in listed if not name.endswith("/")} == names

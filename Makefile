# What can be done here, each target with one line: make help
.DEFAULT_GOAL := help
.PHONY: help setup test test-fast test-heavy lint demo install clean
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

# Never the first python3 of PATH: the distribution's packages are importable from the distribution's own only.
PYTHON ?= /usr/bin/python3
VENV := .venv
RUN := $(VENV)/bin/python -m

PREFIX ?= /usr
SYSCONFDIR ?= /etc
DESTDIR ?=
UNITS = $(DESTDIR)$(PREFIX)/lib/systemd
SHARE = $(DESTDIR)$(PREFIX)/share
DATA := install -D -p -m 0644

help: ## shows this
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(VENV)/.ready ## installs what developing needs: system packages (as root), a virtual environment

$(VENV)/.ready: pyproject.toml packaging/setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) sh packaging/setup.sh
	@touch $@

test: lint ## everything, machines included (root)
	LLMGWD_BUS_LIBRARY=dbus-next $(RUN) pytest -q tests/bus
	$(RUN) pytest

test-fast: setup ## what needs neither root nor a machine
	$(RUN) pytest -q -m "not machine"

test-heavy: setup ## a real vLLM, and other engines' real parsers (root). Gets 1 GB the first time, keeps 4 GB in .cache
	LLMGWD_HEAVY=1 $(RUN) pytest tests/heavy

lint: setup ## style, types, floors, units
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports
	$(RUN) pytest -q tests/test_units.py

demo: setup ## shows it at work: a real engine outlives its daemon. KEEP=1 leaves a shell in the machine
	@$(RUN) tests.demo

install: ## lays every file of a package down: DESTDIR=, PREFIX=/usr, SYSCONFDIR=/etc, PYCOMPILE=no
	$(PYTHON) packaging/install_python.py --destdir "$(DESTDIR)" --prefix "$(PREFIX)" --python $(PYTHON) $(if $(filter no,$(PYCOMPILE)),--no-compile)
	for unit in units/*.service units/*.slice units/*.target; do $(call unit,$$unit,system); done
	for unit in units/user/*.service units/user/*.slice; do $(call unit,$$unit,user); done
	for dropin in units/*.service.d/*.conf; do $(DATA) $$dropin "$(UNITS)/system/$${dropin#units/}"; done
	$(DATA) units/journald@llmgw.conf "$(UNITS)/journald@llmgw.conf.d/llmgwd.conf"
	$(DATA) units/sysusers.d/llmgwd.conf -t "$(DESTDIR)$(PREFIX)/lib/sysusers.d"
	$(DATA) units/tmpfiles.d/llmgwd.conf -t "$(DESTDIR)$(PREFIX)/lib/tmpfiles.d"
	$(DATA) dbus/org.llmgw.Node1.conf -t "$(SHARE)/dbus-1/system.d"
	$(DATA) dbus/org.llmgw.Node1.service -t "$(SHARE)/dbus-1/system-services"
	$(if $(wildcard dbus/*.xml),$(DATA) dbus/*.xml -t "$(SHARE)/dbus-1/interfaces")
	@$(call configuration,packaging/llmgwd.toml,$(DESTDIR)$(SYSCONFDIR)/llmgwd/llmgwd.toml)

# A unit names the directory that the start scripts went to.
unit = sed 's|/usr/bin/llmgw|$(PREFIX)/bin/llmgw|' $(1) | $(DATA) /dev/stdin "$(UNITS)/$(2)/$$(basename $(1))"

# What is there already may have been edited: it stays, and the new one is laid beside it.
define configuration
	if [ -e "$(2)" ] && ! cmp -s $(1) "$(2)"; then \
		$(DATA) $(1) "$(2).new"; \
		echo "install: $(2) is not the one that ships and stays as it is; that one is $(2).new" >&2; \
	else \
		$(DATA) $(1) "$(2)"; \
		rm -f "$(2).new"; \
	fi
endef

clean: ## removes what was made here, the virtual environment included
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

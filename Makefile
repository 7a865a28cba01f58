# Names for ./dev: the launcher does the work, these are habits.
.PHONY: setup run test fast lint types migrations docs frontend bench check demo engines chaos drill books screens fresh
PY = .venv/bin/python
RULES = portal/kit billing/domain marketplace/domain scheduling/domain agent client

setup:       ## environment, pages, wheels
	./dev setup test
run:         ## the product
	./dev up
test:        ## everything
	./dev test
fast:        ## rules only, no database
	IDLEWILD_TEST_NO_DB=1 $(PY) -m pytest -q tests/portal/kit tests/billing/domain tests/marketplace/domain tests/scheduling/domain tests/agent/test_machine.py
lint:        ## format, lint, import contracts; lists what is long
	.venv/bin/ruff format . && .venv/bin/ruff check . && .venv/bin/lint-imports && $(PY) -m tests.lengths
types:       ## strict on the rules, the agent and the client
	.venv/bin/mypy $(RULES)
migrations:  ## what the models want
	./dev manage makemigrations
docs:        ## links, claims, settings, commands
	$(PY) -m pytest -q tests/test_docs.py
frontend:    ## pages and catalogs
	./dev setup && cd frontend && npm run check && npm test
bench:       ## every claim, quick
	for run in benchmarks/*/run.py; do $(PY) $$run --quick || exit 1; done
check:       ## all
	./dev lock --check && ./dev test
demo:        ## market, four agents, main job, an invoice
	./dev up --demo
engines:     ## Slurm, Ray, Kubernetes stub (installs system packages)
	$(PY) -m pytest -q -m engines tests
chaos:       ## a running market, 300 kills, cuts and freezes; then the real lease classes
	$(PY) -m tests.chaos --deeds 300
	$(PY) -m pytest -q -m real_time tests
drill:       ## back up, lose every server and the database's folder, bring it back: RPO and RTO
	$(PY) -m tests.chaos.drill
books:       ## a real log billed to the cent: every format of 306 invoices (needs the reference data)
	IDLEWILD_BOOKS=all $(PY) -m pytest -q -s tests/billing/services/test_reference_documents.py
screens:     ## a picture of each page and language
	$(PY) -m pytest -q -m e2e tests/e2e -k screens
fresh:       ## a clean clone with an empty HOME, as root, as a plain user, under a 0700 folder
	$(PY) -m tests.fresh

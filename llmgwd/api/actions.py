"""Who may do what: every exported method names one of these."""

READ = "org.llmgw.node1.read"
READ_LOGS = "org.llmgw.node1.read-logs"
MANAGE = "org.llmgw.node1.manage"

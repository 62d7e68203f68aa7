"""What people look at: a task at a glance, lists, differences, sums over tasks and days, whether anything is wrong."""

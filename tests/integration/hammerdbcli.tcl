# A stand-in for hammerdbcli, which no package registry has: the commands of HammerDB 4.3 and later that dballoc's scripts use, with
# their words, in front of a real server through the client mariadb. It refuses what hammerdbcli refuses, and serves to show that the
# scripts are Tcl, that they come in the order it wants, and what dballoc makes of how it ends. Its load is nothing like HammerDB's.
# A file "fail" beside it: its clients cannot log on; a file "idle": they log on and do nothing.
set hdb_version "v4.12"
puts "HammerDB CLI $hdb_version"
if {![file exists [file join . modules]]} { puts "Error: not in its own directory"; exit 1 }
if {$argc != 2 || [lindex $argv 0] ne "auto" || [file extension [lindex $argv 1]] ne ".tcl"} { puts "Usage: hammerdbcli"; exit }
set mode [expr {[file exists fail] ? "fail" : [file exists idle] ? "idle" : ""}]

set known {
  connection {host port socket}
  tpcc {user pass dbase storage_engine count_ware num_vu partition prepared driver rampup duration allwarehouse timeprofile}
}
array set option {prepared false num_vu 1 count_ware 1 driver test}
array set done {loaded 0 created 0}
set vu 1

proc dbset {what value} {
  if {$what eq "db" && $value ni {maria mysql}} { puts "Unknown prefix $value"; exit 1 }
  if {$what eq "db"} { set ::prefix $value }
}
proc diset {section name value} {
  set key [string range $name [string length "${::prefix}_"] end]
  if {![string match "${::prefix}_*" $name] || $key ni [dict get $::known $section]} {
    puts "Dictionary $section exists but key $name doesn't"
    return
  }
  set ::option($key) $value
}
proc vuset {what value} { if {$what eq "vu"} { set ::vu $value } }
proc client {database} {
  global option
  set where [expr {$option(socket) eq "null" ? "--protocol=tcp --host=$option(host) --port=$option(port)" : "--socket=$option(socket)"}]
  set ::env(MYSQL_PWD) $option(pass)
  return [open "|mariadb --no-defaults --unbuffered $where --user=$option(user) $database 2>@1" r+]
}
proc fail {} {
  puts "Error in Virtual User 1: mysqlconnect/db server: Access denied for user '$::option(user)'@'localhost'"
  puts "Vuser 1:FINISHED FAILED"
  flush stdout
  after 100000
}
proc buildschema {} {
  global option
  if {$option(num_vu) > $option(count_ware)} {
    puts "Error:Build virtual users must be less than or equal to number of warehouses"
    return
  }
  if {$::mode eq "fail"} { fail }
  set pipe [client ""]
  puts $pipe "CREATE DATABASE $option(dbase); USE $option(dbase);
    CREATE TABLE warehouse (w_id INT PRIMARY KEY) ENGINE=$option(storage_engine);
    CREATE TABLE district (d_w_id INT, d_id INT, d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)) ENGINE=$option(storage_engine);"
  for {set w 1} {$w <= $option(count_ware)} {incr w} {
    puts $pipe "INSERT INTO warehouse VALUES ($w);"
    for {set d 1} {$d <= 10} {incr d} { puts $pipe "INSERT INTO district VALUES ($w, $d, 3001);" }
  }
  close $pipe write
  puts [read $pipe]
  puts "TPCC SCHEMA COMPLETE"
}
proc waittocomplete {args} { puts "waittocomplete command has been deprecated" }
proc loadscript {} { set ::done(loaded) 1 }
proc vucreate {} {
  if {!$::done(loaded)} { puts "Error: There is no workload to run because the Script is empty"; exit 1 }
  if {$::option(driver) ne "timed"} { puts "Processing transactions without output suppressed..." }
  set ::done(created) 1
}
# One turn, after what the one before has answered.
proc work {pipe number} {
  if {[read $pipe] eq "" && [eof $pipe]} { close $pipe; return }
  turn $pipe $number
}
proc turn {pipe number} {
  if {$::mode eq "idle"} { return }
  puts $pipe "START TRANSACTION;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = [expr {$number % 10 + 1}]; COMMIT;
    START TRANSACTION; SELECT d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = 1; ROLLBACK;"
  flush $pipe
}
proc vurun {} {
  if {!$::done(created)} { puts "Error: no virtual users"; exit 1 }
  if {$::mode eq "fail"} { fail }
  for {set i 1} {$i <= $::vu} {incr i} {
    set pipe [client $::option(dbase)]
    fconfigure $pipe -blocking 0
    fileevent $pipe readable [list work $pipe $i]
    turn $pipe $i
  }
  puts "Vuser 1:RUNNING"
  flush stdout
  after [expr {($::option(rampup) + $::option(duration)) * 60000}] { set ::over 1 }
  vwait ::over
}
source [lindex $argv 1]

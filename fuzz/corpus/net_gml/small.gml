# small
graph [ directed 0 label "x"
 node [ id 0 label "A &#38; B" Latitude 1.5 Longitude -2 graphics [ x 1 ] ]
 node [ id 1 label "A" ] node [ id 2 label "A" ]
 edge [ source 0 target 1 LinkSpeed "10" LinkSpeedUnits "G" LinkLabel "OC-192c" ]
 edge [ source 1 target 2 capacity 100 delay 3 dist 2.5 ] ]
